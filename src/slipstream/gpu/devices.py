"""CUDA devices: which exist, which one is used, and how much memory they have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from slipstream.config import Config
from slipstream.config.sections import DenseSettings
from slipstream.errors import ConfigError
from slipstream.pipeline.dense import WeightOptimizer


def check_device(config: Config) -> None:
    """Raise an error if the device of a configuration does not exist, or cannot train it."""
    if config.device == "cpu":
        if config.precision == "tf32":
            raise ConfigError("precision is tf32, which only a GPU supports: use fp32.")
        return
    device = torch.device(config.device)
    if not torch.cuda.is_available():
        raise ConfigError(
            f"device is {config.device!r}, but PyTorch finds no CUDA device here. Train on the "
            "cpu, or install a PyTorch for CUDA on a machine with an NVIDIA GPU."
        )
    if device.index is not None and device.index >= torch.cuda.device_count():
        raise ConfigError(
            f"device is {config.device!r}, but there are {torch.cuda.device_count()} CUDA devices "
            "here, numbered from 0."
        )


def use_device(config: Config) -> None:
    """Select the GPU that a configuration names, and install the models' kernels for it."""
    device = torch.device(config.device)
    if device.type != "cuda":
        return
    install_model_kernels()
    if device.index is not None:
        torch.cuda.set_device(device)


def install_model_kernels() -> None:
    """Have MLPs and the dot interaction of DLRM use Triton kernels for tensors on a GPU."""
    from slipstream.gpu.kernels import dots, dots_of_rows, mlp
    from slipstream.models.dlrm import DotInteraction
    from slipstream.models.layers import Mlp

    Mlp.kernel = mlp
    DotInteraction.kernel, DotInteraction.rows_kernel = dots, dots_of_rows


def weight_optimizer(
    device: str, *, captured: bool = False
) -> Callable[[nn.Module, DenseSettings], WeightOptimizer] | None:
    """The optimizer of dense weights on this device; None on a CPU, where PyTorch's is used.

    `captured` is whether a step is captured as a graph, which tests also do on a CPU.
    """
    if device == "cpu" and not captured:
        return None
    from slipstream.gpu.step.flat_optimizer import FlatOptimizer

    return FlatOptimizer


def describe_devices() -> dict[str, Any]:
    """The version of CUDA and, for each GPU, its name and its memory, as JSON."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    properties = map(torch.cuda.get_device_properties, range(count))
    gpus = [{"name": gpu.name, "memory_bytes": gpu.total_memory} for gpu in properties]
    return {"cuda": torch.version.cuda, "gpus": gpus}


def reset_peak_memory(device: str) -> None:
    """Measure the peak of a GPU's memory from here on; does nothing for a CPU."""
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak_memory(device: str) -> int:
    """The largest number of bytes of a GPU that were in use at once; 0 for a CPU."""
    return int(torch.cuda.max_memory_reserved(device)) if device.startswith("cuda") else 0


def available_memory(device: str) -> int:
    """Bytes of a GPU's memory that no other process uses."""
    total = torch.cuda.get_device_properties(device).total_memory
    others = total - torch.cuda.mem_get_info(device)[0] - torch.cuda.memory_reserved(device)
    return int(total - max(0, others))
