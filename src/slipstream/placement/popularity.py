"""Which rows are worth keeping, learned from the batches as they come: old accesses fade."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slipstream.data.inputs import Array

_LARGEST = 1e20  # beyond it the weight of new accesses is made 1 again


@dataclass(frozen=True)
class Refresh:
    """When kept rows are chosen anew, and how.

    Args:
        first: Steps before they are chosen for the first time.
        every: Steps from one choice to the next; 0 never chooses, and only knows which rows to
            give up first where a batch does not fit beside those that are kept.
        most: For each group how many rows may be kept.
        decay: What is left of the accesses counted so far when rows are chosen.
        known: For each group the accesses to begin with.
    """

    first: int
    every: int
    most: Sequence[int]
    decay: float = 0.9
    known: Sequence[Array] | None = None

    def due(self, step: int) -> bool:
        """Whether rows are chosen before a step."""
        done = step - 1 - self.first
        return self.every > 0 and done >= 0 and done % self.every == 0


class Popular:
    """The rows of one group that are worth keeping.

    Between two choices only rows that were seen can rise above one that is chosen, since all fade
    alike. So a choice looks at these and at the chosen ones, however large the tables are.

    Args:
        rows: Rows of the group.
        chosen: Those that are kept from the start.
        most: How many may be kept.
        decay: What is left of the accesses counted so far at a choice.
        known: The accesses to begin with.

    Example:
        >>> popular = Popular(5, np.array([0]), 1, 0.5)
        >>> popular.count(np.array([3, 4]), np.array([2, 1]))
        >>> popular.choose().tolist(), np.flatnonzero(popular.chosen).tolist()
        ([0], [3])
    """

    def __init__(
        self, rows: int, chosen: Array, most: int, decay: float, known: Array | None = None
    ) -> None:
        self.chosen = np.zeros(rows, dtype=bool)
        self.chosen[chosen] = True
        self._most, self._decay = most, decay
        self._counts = np.zeros(rows, dtype=np.float32)
        if known is not None:
            self._counts[:] = known
        self._weight = 1.0
        self._seen: list[Array] = []

    def count(self, rows: Array, times: Array) -> None:
        """Accesses of distinct rows."""
        self._counts[rows] += np.float32(self._weight) * times.astype(np.float32)
        self._seen.append(rows)

    def choose(self) -> Array:
        """Choose anew; gives the rows that were chosen before and are so no longer."""
        before = np.flatnonzero(self.chosen)
        rows = np.unique(np.concatenate([before, *self._seen]))
        self._seen = []
        if len(rows) > self._most:
            rows = self._best(rows)
        self.chosen[before] = False
        self.chosen[rows] = True
        self._fade()
        return before[~self.chosen[before]]

    def drop(self, rows: Array, count: int) -> Array:
        """Choose some rows no longer: of these the least accessed, as many as that."""
        dropped = rows
        if len(rows) > count:
            dropped = rows[np.argsort(self._counts[rows], kind="stable")[:count]]
        self.chosen[dropped] = False
        return dropped

    def _best(self, rows: Array) -> Array:
        """The most accessed rows; of equal ones those that are chosen, then the first."""
        if self._most == 0:
            return rows[:0]
        counts = self._counts[rows]
        lowest = np.partition(counts, -self._most)[-self._most]
        above = counts > lowest
        level = rows[counts == lowest]
        level = np.concatenate([level[self.chosen[level]], level[~self.chosen[level]]])
        return np.concatenate([rows[above], level[: self._most - int(above.sum())]])

    def _fade(self) -> None:
        """Give new accesses more weight, which is cheaper than taking it from all old ones."""
        if self._decay == 0 or self._weight > _LARGEST:
            self._counts *= np.float32(self._decay / self._weight)
            self._weight = 1.0
        else:
            self._weight /= self._decay
