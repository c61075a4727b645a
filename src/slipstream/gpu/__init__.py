"""All that needs a CUDA device. The names below are the interface; nothing else is used outside.

Outside of this folder no code imports Triton, opens a stream, or calls `torch.cuda`. A name is
imported when it is first used, so a training on a CPU imports no Triton.

Devices: `check_device`, `use_device`, `describe_devices` and the peak of their memory.
The step: `build_graph_engine`, whose step is one CUDA graph; `weight_optimizer` for its dense part.
Planning ahead: how many batches and with which lags, the options of the loader, the placement whose
kept rows the device finds, and iterators over plans that the engine prepares.
Memory: `memory_estimate` of a training, and a sentence for one that does not fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.lazy import lazy_name

if TYPE_CHECKING:
    from slipstream.gpu.devices import (
        check_device,
        describe_devices,
        peak_memory,
        reset_peak_memory,
        use_device,
        weight_optimizer,
    )
    from slipstream.gpu.memory import StepSizes, memory_estimate, out_of_memory
    from slipstream.gpu.planning.device_placement import device_finds_rows, device_placement
    from slipstream.gpu.planning.plan_ahead import (
        least_ordering_lag,
        least_skip_lag,
        loader_options,
        plans_in_threads,
        read_ahead_bytes,
        skip_lag,
        uses_gpu,
        window_of,
    )
    from slipstream.gpu.planning.plan_queue import prepared_in_thread, prepared_plans
    from slipstream.gpu.step.graph_engine import build_graph_engine

__all__ = [
    "StepSizes",
    "build_graph_engine",
    "check_device",
    "describe_devices",
    "device_finds_rows",
    "device_placement",
    "least_ordering_lag",
    "least_skip_lag",
    "loader_options",
    "memory_estimate",
    "out_of_memory",
    "peak_memory",
    "plans_in_threads",
    "prepared_in_thread",
    "prepared_plans",
    "read_ahead_bytes",
    "reset_peak_memory",
    "skip_lag",
    "use_device",
    "uses_gpu",
    "weight_optimizer",
    "window_of",
]

_WHERE = {
    "devices": (
        "check_device",
        "describe_devices",
        "peak_memory",
        "reset_peak_memory",
        "use_device",
        "weight_optimizer",
    ),
    "memory": ("StepSizes", "memory_estimate", "out_of_memory"),
    "planning.device_placement": ("device_finds_rows", "device_placement"),
    "planning.plan_ahead": (
        "least_ordering_lag",
        "least_skip_lag",
        "loader_options",
        "plans_in_threads",
        "read_ahead_bytes",
        "skip_lag",
        "uses_gpu",
        "window_of",
    ),
    "planning.plan_queue": ("prepared_in_thread", "prepared_plans"),
    "step.graph_engine": ("build_graph_engine",),
}


def __getattr__(name: str) -> object:
    return lazy_name(__name__, _WHERE, name)
