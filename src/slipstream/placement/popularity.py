"""Which rows are worth keeping, learned from the batches as they come: old accesses fade."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slipstream.data.inputs import Array

LONGER = 8
"""So many times as long as the recent accesses the others are remembered."""
_LARGEST = 1e20  # beyond it the weight of new accesses is made 1 again


@dataclass(frozen=True)
class Refresh:
    """When kept rows are chosen anew, and how.

    Args:
        first: Steps before they are chosen for the first time.
        every: Steps from one choice to the next; 0 never chooses, and only knows which rows to
            give up first where a batch does not fit beside those that are kept.
        most: For each group how many rows may be kept.
        decay: What is left of the recent accesses when rows are chosen.
        known: For each group the accesses to begin with.
        batches: How many batches those were.
    """

    first: int
    every: int
    most: Sequence[int]
    decay: float = 0.94
    known: Sequence[Array] | None = None
    batches: float = 0.0

    def due(self, step: int) -> bool:
        """Whether rows are chosen before a step."""
        done = step - 1 - self.first
        return self.every > 0 and done >= 0 and done % self.every == 0

    def popular(self, group: int, rows: int, chosen: Array) -> Popular:
        """What is known of a group of so many rows at the start, where some are kept."""
        known = None if self.known is None else self.known[group]
        made = Popular(rows, chosen, self.most[group], self.decay)
        if known is not None:
            made.begin(known, self.batches, self.every)
        return made


class Popular:
    """The rows of one group that are worth keeping.

    Accesses are counted twice: recent ones, which fade soon, and all of them, which fade far more
    slowly. As long as the recent ones are what the others let expect, give or take what chance
    does, a row is worth what it was on the long average, which is known better; otherwise its
    popularity has changed, and the recent ones count.

    Between two choices only rows that were seen can become worth more. So a choice looks at these
    and at the chosen ones, however large the tables are.

    Args:
        rows: Rows of the group.
        chosen: Those that are kept from the start.
        most: How many may be kept.
        decay: What is left of the recent accesses at a choice.

    Example:
        >>> popular = Popular(5, np.array([0]), 1, 0.5)
        >>> popular.count(np.array([3, 4]), np.array([2, 1]))
        >>> popular.choose().tolist(), np.flatnonzero(popular.chosen).tolist()
        ([0], [3])
    """

    def __init__(self, rows: int, chosen: Array, most: int, decay: float) -> None:
        self.chosen = np.zeros(rows, dtype=bool)
        self.chosen[chosen] = True
        self._most = most
        self._recent = _Memory(rows, decay)
        self._long = _Memory(rows, decay ** (1 / LONGER))
        self._seen: list[Array] = []

    def begin(self, accesses: Array, batches: float, every: int) -> None:
        """As if so many accesses had come evenly over so many batches, and had faded since.

        Args:
            accesses: Of each row.
            batches: How many they were.
            every: Batches from one choice to the next.
        """
        for memory in (self._recent, self._long):
            memory.begin(accesses, batches, max(1, every))

    def count(self, rows: Array, times: Array) -> None:
        """Accesses of distinct rows, by one more batch."""
        for memory in (self._recent, self._long):
            memory.add(rows, times)
        self._seen.append(rows)

    def worth(self, rows: Array) -> Array:
        """What rows are worth: the accesses to expect of as many batches as are recent."""
        recent, batches = self._recent.of(rows)
        counted, over = self._long.of(rows)
        if not over:
            return recent
        expected = counted * np.float32(batches / over)
        # Fading halves the variance of a count, which otherwise is what is expected.
        chance = 2 * np.sqrt(expected / 2 + np.float32(0.25))
        return np.where(np.abs(recent - expected) <= chance, expected, recent)

    def choose(self) -> Array:
        """Choose anew; gives the rows that were chosen before and are so no longer."""
        before = np.flatnonzero(self.chosen)
        for rows in self._seen:
            self.chosen[rows] = True
        rows = np.flatnonzero(self.chosen)
        self._seen = []
        self.chosen[rows] = False
        self.chosen[before] = True
        if len(rows) > self._most:
            rows = self._best(rows)
        self.chosen[before] = False
        self.chosen[rows] = True
        for memory in (self._recent, self._long):
            memory.fade()
        return before[~self.chosen[before]]

    def drop(self, rows: Array, count: int) -> Array:
        """Choose some rows no longer: of these the ones worth least, as many as that."""
        dropped = rows
        if len(rows) > count:
            dropped = rows[np.argsort(self.worth(rows), kind="stable")[:count]]
        self.chosen[dropped] = False
        return dropped

    def _best(self, rows: Array) -> Array:
        """The rows worth most; of equal ones those that are chosen, then the first."""
        if self._most == 0:
            return rows[:0]
        worth = self.worth(rows)
        lowest = np.partition(worth, -self._most)[-self._most]
        above = worth > lowest
        level = rows[worth == lowest]
        level = np.concatenate([level[self.chosen[level]], level[~self.chosen[level]]])
        return np.concatenate([rows[above], level[: self._most - int(above.sum())]])


class _Memory:
    """Accesses that fade, and the batches that they come from, which fade alike."""

    def __init__(self, rows: int, decay: float) -> None:
        self._counts = np.zeros(rows, dtype=np.float32)
        self._batches = 0.0
        self._weight, self._decay = 1.0, decay

    def begin(self, accesses: Array, batches: float, every: int) -> None:
        self._batches = min(batches, every / max(1e-9, 1 - self._decay))
        np.multiply(accesses, self._batches / max(1e-9, batches), out=self._counts)

    def add(self, rows: Array, times: Array) -> None:
        self._counts[rows] += np.float32(self._weight) * times.astype(np.float32)
        self._batches += self._weight

    def of(self, rows: Array) -> tuple[Array, float]:
        """The accesses of rows that are left, and the batches."""
        return self._counts[rows] / np.float32(self._weight), self._batches / self._weight

    def fade(self) -> None:
        """Give new accesses more weight, which is cheaper than taking it from all old ones."""
        if self._decay == 0 or self._weight > _LARGEST:
            self._counts *= np.float32(self._decay / self._weight)
            self._batches *= self._decay / self._weight
            self._weight = 1.0
        else:
            self._weight /= self._decay
