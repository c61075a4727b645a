"""How fast steps go and how long the GPU is at work for them, for the benchmark of a GPU."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from numba.core.dispatcher import Dispatcher

SHOWN = 40  # kernels
_TASKS = Path("/proc/self/task")


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
        """Milliseconds a step: some kernel at work, all of them one by one, copies, each kernel."""
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
        one_by_one = sum(last - first for first, last in spans[False])
        return {
            "busy_ms": covered(spans[False]) / steps / 1e3,
            "one_by_one_ms": one_by_one / steps / 1e3,
            "copies_ms": covered(spans[True]) / steps / 1e3,
            "kernels": {name: round(total / steps / 1e3, 4) for name, total in shown},
        }


class Threads:
    """How much of a core each thread of this process has from here to `end`."""

    def __init__(self) -> None:
        self._begun, self._before = time.perf_counter(), _seconds()

    def end(self) -> dict[str, float]:
        """By the name of the thread, those of one name together; the busiest first."""
        wall = time.perf_counter() - self._begun
        names = {one.native_id: one.name.rstrip("0123456789_") for one in threading.enumerate()}
        spent: Counter[str] = Counter()
        for number, seconds in _seconds().items():
            spent[names.get(number, "others")] += seconds - self._before.get(number, 0.0)
        return {name: round(total / wall, 3) for name, total in spent.most_common()}


class Compiled:
    """What is compiled for the host from here to `end`, or loaded from what was kept."""

    def __init__(self) -> None:
        self._found: Counter[str] = Counter()
        self._compile = compile_one = Dispatcher.compile

        def watched(dispatcher: Any, signature: Any) -> Any:
            begun = time.perf_counter()
            try:
                return compile_one(dispatcher, signature)
            finally:  # what it calls is compiled meanwhile, and told as well
                self._found[dispatcher.py_func.__name__] += time.perf_counter() - begun

        Dispatcher.compile = watched

    def end(self) -> dict[str, float]:
        """The seconds that it took, by function."""
        Dispatcher.compile = self._compile
        return {name: round(seconds, 3) for name, seconds in self._found.most_common()}


def _seconds() -> dict[int, float]:
    """How long each thread has run, by its number; nothing where the system does not say."""
    found = {}
    for task in _TASKS.iterdir() if _TASKS.is_dir() else ():
        try:
            found[int(task.name)] = int((task / "schedstat").read_text().split()[0]) / 1e9
        except OSError:  # it has ended, or the system does not say
            continue
    return found


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
