"""Which rows are worth keeping, learned from the batches as they come: old accesses fade."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slipstream.arrays import Array
from slipstream.compiled import compiled

DECAY = 0.78
"""What is left of recent accesses after a hundredth of an epoch."""
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
    decay: float = DECAY
    known: Sequence[Array] | None = None
    batches: float = 0.0

    @classmethod
    def of(
        cls,
        share: float,
        batches: float,
        most: Sequence[int],
        *,
        learning: float = 0.0,
        known: Sequence[Array] | None = None,
        counted: float = 0.0,
    ) -> Refresh:
        """That of a tier, by shares of an epoch.

        Args:
            share: From one choice to the next; 0 never chooses.
            batches: Of an epoch.
            most: For each group how many rows may be kept.
            learning: Before the first choice, where no accesses are known.
            known: For each group the accesses to begin with.
            counted: How many batches those were.
        """
        every = max(1, round(share * batches)) if share else 0
        first = every if known is not None else max(1, round(learning * batches))
        left = DECAY ** (every / max(1e-9, 0.01 * batches))
        return cls(first, every, most, left, known, counted)

    def due(self, step: int) -> bool:
        """Whether rows are chosen before a step."""
        done = step - 1 - self.first
        return self.every > 0 and done >= 0 and done % self.every == 0

    def popular(self, group: int, rows: int, chosen: Array) -> Popular:
        """What is known of a group of so many rows at the start, where some are kept."""
        known = None if self.known is None else self.known[group]
        popular = Popular(rows, chosen, self.most[group], self.decay)
        if known is not None:
            popular.begin(known, self.batches, self.every)
        return popular


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
        >>> popular.count(np.array([3, 4]))
        >>> popular.count(np.array([3]))
        >>> popular.choose().tolist(), np.flatnonzero(popular.chosen).tolist()
        ([0], [3])
    """

    def __init__(self, rows: int, chosen: Array, most: int, decay: float) -> None:
        self.chosen = np.zeros(rows, dtype=bool)
        self.chosen[chosen] = True
        self._kept_rows = np.asarray(chosen, dtype=np.int64)
        self.number = len(self._kept_rows)
        self._most = most
        self._decay = np.array([decay, decay ** (1 / LONGER)])
        # Recent and all accesses side by side, and the batches that they come from. New ones gain
        # weight at every choice, which is cheaper than taking it from all old ones.
        self._counts = np.zeros((rows, 2), dtype=np.float32)
        self._batches, self._weight = np.zeros(2), np.ones(2)
        self._seen: list[Array] = []

    def begin(self, accesses: Array, batches: float, every: int) -> None:
        """As if so many accesses had come evenly over so many batches, and had faded since.

        Args:
            accesses: Of each row.
            batches: How many they were.
            every: Batches from one choice to the next.
        """
        self._batches = np.minimum(batches, max(1, every) / np.maximum(1e-9, 1 - self._decay))
        for memory, share in enumerate(self._batches / max(1e-9, batches)):
            np.multiply(accesses, share, out=self._counts[:, memory])

    def count(self, rows: Array) -> None:
        """One more batch, which needs these rows."""
        recent, longer = self._weight.tolist()
        _add(rows, self._counts, recent, longer)
        self._batches += self._weight
        self._seen.append(rows)

    def worth(self, rows: Array) -> Array:
        """What rows are worth: the accesses to expect of as many batches as are recent."""
        worth = np.empty(len(rows), dtype=np.float32)
        recent, over = self._batches / self._weight
        now, longer = 1 / self._weight
        _judge(rows, self._counts, float(now), float(longer), recent / max(over, 1e-9), worth)
        return worth

    def choose(self) -> Array:
        """Choose anew; gives the rows that were chosen before and are so no longer."""
        kept_rows = self._kept_rows[self.chosen[self._kept_rows]]
        room = np.empty(max(map(len, self._seen), default=0), dtype=np.int64)
        others = [room[: _mark(rows_seen, self.chosen, room)].copy() for rows_seen in self._seen]
        rows = np.concatenate([kept_rows, *others])
        before = len(kept_rows)
        self._seen = []
        stays = self._best(rows)
        self.chosen[rows] = stays
        self._kept_rows = rows[stays]
        self.number = len(self._kept_rows)
        self._fade()
        return rows[:before][~stays[:before]]

    def drop(self, rows: Array, count: int) -> Array:
        """Choose some rows no longer: of these the ones worth least, as many as that."""
        dropped = rows
        if len(rows) > count:
            dropped = rows[np.argsort(self.worth(rows), kind="stable")[:count]]
        self.chosen[dropped] = False
        self.number -= len(dropped)
        return dropped

    def _best(self, rows: Array) -> Array:
        """Whether each is among those worth most; of equal ones the first."""
        if len(rows) <= self._most:
            return np.ones(len(rows), dtype=bool)
        if self._most == 0:
            return np.zeros(len(rows), dtype=bool)
        worth = self.worth(rows)
        lowest = np.partition(worth, -self._most)[-self._most]
        stays = worth > lowest
        (level,) = np.nonzero(worth == lowest)
        stays[level[: self._most - int(stays.sum())]] = True
        return stays

    def _fade(self) -> None:
        for memory, decay in enumerate(self._decay):
            if decay == 0 or self._weight[memory] > _LARGEST:
                left = decay / self._weight[memory]
                self._counts[:, memory] *= np.float32(left)
                self._batches[memory] *= left
                self._weight[memory] = 1.0
            else:
                self._weight[memory] /= decay


@compiled
def _add(rows: Array, counts: Array, recent: float, longer: float) -> None:
    for k in range(len(rows)):
        counts[rows[k], 0] += recent
        counts[rows[k], 1] += longer


@compiled
def _judge(
    rows: Array, counts: Array, recent: float, longer: float, share: float, worth: Array
) -> None:
    """The long average where recent accesses are what it lets expect, otherwise these.

    Args:
        rows: Whose worth it is.
        counts: Their recent accesses and all of them, weighted.
        recent: Takes the weight from the recent ones.
        longer: Takes the weight from the others.
        share: How many batches are recent for each that is remembered.
        worth: Out.
    """
    for k in range(len(rows)):
        now = counts[rows[k], 0] * recent
        expected = counts[rows[k], 1] * longer * share
        # Fading halves the variance of a count, which otherwise is what is expected.
        chance = 4 * (expected / 2 + 0.25)
        worth[k] = expected if (now - expected) ** 2 <= chance else now


@compiled
def _mark(rows: Array, chosen: Array, newly_chosen: Array) -> int:
    """Mark rows as chosen that are not, and write them down; returns how many they are."""
    count = 0
    for k in range(len(rows)):
        if not chosen[rows[k]]:
            chosen[rows[k]] = True
            newly_chosen[count] = rows[k]
            count += 1
    return count
