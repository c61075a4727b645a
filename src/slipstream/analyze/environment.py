"""The facts about a machine that a bug report or a reader of measurements needs."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from slipstream.version import __version__

_PACKAGES = ("torch", "triton", "numpy", "numba", "polars", "pyarrow", "rich", "typer", "pyyaml")


def environment() -> dict[str, Any]:
    """Versions, processor, memory and devices, as JSON.

    Example:
        >>> facts = environment()
        >>> facts["slipstream"] == slipstream.__version__, facts["cpu"]["usable"] >= 1
        (True, True)
    """
    return {
        "slipstream": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpu": {"name": _cpu_name(), "cores": os.cpu_count(), "usable": _usable()},
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        **_torch(),
        "packages": {name: number for name in _PACKAGES if (number := _version(name))},
        "variables": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(("OMP_", "MKL_", "NUMBA_", "CUDA_VISIBLE", "TORCH_"))
        },
    }


def summary_line(facts: dict[str, Any]) -> str:
    """The machine in one line.

    Example:
        >>> cpu = {"name": "A CPU", "usable": 2}
        >>> summary_line({"cpu": cpu, "memory_bytes": 4 << 30, "gpus": []})
        'A CPU, 2 cores, 4 GiB of memory, no GPU'
    """
    gpus = [f"{gpu['name']} ({gpu['memory_bytes'] / 2**30:.0f} GiB)" for gpu in facts["gpus"]]
    return (
        f"{facts['cpu']['name']}, {facts['cpu']['usable']} cores, "
        f"{facts['memory_bytes'] / 2**30:.3g} GiB of memory, {' and '.join(gpus) or 'no GPU'}"
    )


def _torch() -> dict[str, Any]:
    """Threads and GPUs of torch, or why it cannot be imported."""
    try:
        import torch

        from slipstream.gpu import describe_devices
    except Exception as error:
        return {"threads": 0, "cuda": None, "gpus": [], "torch_error": str(error)}
    return {"threads": torch.get_num_threads(), **describe_devices()}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_name() -> str:
    path = Path("/proc/cpuinfo")
    if path.is_file():
        for line in path.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _usable() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
