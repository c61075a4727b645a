"""How fast steps go and how long the GPU is at work for them, for the benchmark of a GPU."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch

SHOWN = 12  # kernels


class Busy:
    """What a GPU does from here to `end`: the time of its kernels, and of its copies.

    Args:
        device: Where steps run; of a CPU nothing is told.
    """

    def __init__(self, device: str) -> None:
        self._profile: Any = None
        if device.startswith("cuda"):
            torch.cuda.synchronize()
            self._profile = torch.profiler.profile(
                activities=[torch.profiler.ProfilerActivity.CUDA]
            )
            self._profile.start()

    def end(self, steps: int) -> dict[str, Any]:
        """Milliseconds a step: some kernel at work, some copy at work, and the longest kernels."""
        if self._profile is None:
            return {}
        torch.cuda.synchronize()
        self._profile.stop()
        spans: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
        kernels: Counter[str] = Counter()
        for event in self._profile.events():
            if "CUDA" not in str(event.device_type):
                continue
            copies = event.name.startswith(("Memcpy", "Memset"))
            spans[copies].append((event.time_range.start, event.time_range.end))
            kernels[event.name[:60]] += event.time_range.end - event.time_range.start
        shown = kernels.most_common(SHOWN)
        return {
            "busy_ms": covered(spans[False]) / steps / 1e3,
            "copies_ms": covered(spans[True]) / steps / 1e3,
            "kernels": {name: round(total / steps / 1e3, 4) for name, total in shown},
        }


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """The length of all that is covered by some of the spans.

    Example:
        >>> covered([(0, 2), (1, 3), (5, 6)])
        4
    """
    total, end = 0, float("-inf")
    for first, last in sorted(spans):
        total += max(0, last - max(first, end))
        end = max(end, last)
    return total


def wait_for(device: str) -> float:
    """The time, once everything that was asked of a device is done."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter()


def timed(
    step: Callable[[], Any], batch: int, device: str, *, warm: int, seconds: float, watched: int
) -> dict[str, Any]:
    """Samples a second of steps, after some that are not timed.

    Args:
        step: Does a step.
        batch: Inputs of one.
        device: Where.
        warm: Steps that are not timed.
        seconds: How long it is timed, at least for two steps.
        watched: Steps after that, whose work on the GPU is looked at; 0 looks at none.
    """
    for _ in range(warm):
        step()
    begun, steps = wait_for(device), 0
    while steps < 2 or time.perf_counter() - begun < seconds:
        step()
        steps += 1
    wall = (wait_for(device) - begun) / steps
    found = {"samples_per_second": batch / wall, "wall_ms": wall * 1e3}
    if watched:
        busy = Busy(device)
        for _ in range(watched):
            step()
        found |= busy.end(watched)
    return found
