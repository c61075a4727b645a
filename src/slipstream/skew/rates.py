"""How fast rows are copied on this machine, and what that makes of a step rate."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slipstream.data.copying import copy_rows
from slipstream.embedding.store import in_memory

_SLOW_BYTES = 1 << 28  # larger than caches, as a slow tier is
_ROWS = 1 << 15
_ROUNDS = 5


@dataclass(frozen=True)
class Rates:
    """What a budget is judged with.

    Args:
        row_seconds: For each group the seconds that copying one row takes.
        step_rate: Inputs a second of a training whose rows are all in fast memory, if known.
    """

    row_seconds: Sequence[float]
    step_rate: float | None = None

    def copy_seconds(self, rows_in: Sequence[int], rows_out: Sequence[int]) -> float:
        """The seconds that copying these rows takes."""
        rows = zip(rows_in, rows_out, self.row_seconds, strict=True)
        return sum((came + left) * seconds for came, left, seconds in rows)

    def samples_per_second(self, copying: float, ahead: bool) -> float | None:
        """The rate to expect where an input's rows take `copying` seconds.

        Rows that travel ahead cost time only where they take longer than the steps do; those that
        travel when their batch is there hold it up.
        """
        if self.step_rate is None:
            return None
        step = 1 / self.step_rate
        return 1 / (max(step, copying) if ahead else step + copying)


def measured(sizes: Sequence[int], step_rate: float | None = None) -> Rates:
    """Measure how long a row takes from a random place in a large array, as the mover copies it.

    Args:
        sizes: Bytes of a row of each group.
        step_rate: Inputs a second of a training whose rows are all in fast memory, if known.
    """
    return Rates([_row_seconds(size) for size in sizes], step_rate)


def _row_seconds(size: int) -> float:
    words = size // 4
    slow = in_memory((max(_ROWS, _SLOW_BYTES // size), words))
    slow[:] = 1  # memory that was never written is not there yet
    fast = np.ones((_ROWS, words), dtype=slow.dtype)
    random = np.random.default_rng(0)
    places = np.arange(_ROWS)
    copy_rows(slow, places, places, fast)  # compiled here
    taken = []
    for _ in range(_ROUNDS):
        rows = random.integers(0, len(slow), _ROWS)
        begun = time.perf_counter()
        copy_rows(slow, rows, places, fast)
        taken.append(time.perf_counter() - begun)
    return float(np.median(taken)) / _ROWS
