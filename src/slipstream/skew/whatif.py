"""What if: hits and bytes moved by each way to use a fast tier, from plans alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from slipstream.data.batch import Batch
from slipstream.data.inputs import Array
from slipstream.embedding.spec import Layout
from slipstream.errors import ConfigError
from slipstream.placement.budget import share_out, too_small_for_some
from slipstream.placement.need import Needed
from slipstream.placement.popularity import Refresh
from slipstream.placement.resident import Resident
from slipstream.placement.tiered import Tiered
from slipstream.skew.caches import best_misses, lru_distances
from slipstream.skew.popularity import Popularity
from slipstream.skew.rates import Rates


@dataclass(frozen=True)
class Way:
    """A way to use the fast tier: what stays in it, and how far it looks ahead.

    Args:
        name: What it is called.
        keep: Whether the most accessed rows stay.
        window: The most batches to look ahead; 1 brings rows when their batch is there.
        refresh: The share of an epoch after which the rows that stay are chosen anew; 0 never.
    """

    name: str
    keep: bool
    window: int
    refresh: float = 0.0


WAYS = (
    Way("popular rows kept", keep=True, window=1),
    Way("lookahead", keep=False, window=200),  # strategy bagpipe
    Way("popular + lookahead", keep=True, window=8, refresh=0.04),  # strategy fast
)
LRU, BEST = "least recently used", "best possible"


@dataclass(frozen=True)
class Outcome:
    """What one way comes to with one budget, over the counted batches of the sample.

    Args:
        way: Its name.
        budget: Bytes of the fast tier.
        inputs: Inputs counted.
        lookups: Rows that their batches needed, each counted once a batch.
        rows_in: For each group the rows brought in.
        rows_out: For each group the rows written back.
        ahead: Whether rows travel while an earlier batch is trained.
        why_not: The reason where it cannot be done with this budget.
    """

    way: str
    budget: int
    inputs: int
    lookups: int
    rows_in: Sequence[int]
    rows_out: Sequence[int]
    ahead: bool
    why_not: str | None = None

    @property
    def hit_rate(self) -> float:
        """The share of needed rows that were in the fast tier already."""
        return 1 - sum(self.rows_in) / self.lookups if self.lookups else 1.0

    def bytes_per_input(self, sizes: Sequence[int]) -> float:
        """Bytes moved for an input, both ways together."""
        rows = zip(self.rows_in, self.rows_out, sizes, strict=True)
        return sum((came + left) * size for came, left, size in rows) / max(1, self.inputs)

    def to_json(self, sizes: Sequence[int], rates: Rates) -> dict[str, Any]:
        """As plain JSON values; None where the budget is too small."""
        said: dict[str, Any] = {"way": self.way, "budget_bytes": self.budget}
        if self.why_not is not None:
            return {**said, "why_not": self.why_not}
        copying = rates.copy_seconds(self.rows_in, self.rows_out) / max(1, self.inputs)
        return {
            **said,
            "hit_rate": self.hit_rate,
            "bytes_per_input": self.bytes_per_input(sizes),
            "copies_alone_per_second": 1 / copying if copying else None,
            "samples_per_second": rates.samples_per_second(copying, self.ahead),
        }


class Sample:
    """Consecutive batches to count on.

    The first third warms the tiers up and the last is what the window still sees: the batches
    between them are counted.

    Args:
        layout: Tables and features.
        singles: The names of the columns in the block of single ids, in order.
        batches: The batches.
        needed: The most rows that a batch of the whole training needs; None is the most of the
            sample.
    """

    def __init__(
        self,
        layout: Layout,
        singles: Sequence[str],
        batches: Sequence[Batch],
        needed: Needed | None = None,
    ) -> None:
        if not batches:
            raise ConfigError("There is nothing to count on: the training part has no inputs.")
        self.layout, self.singles, self.batches = layout, list(singles), list(batches)
        third = len(batches) // 3
        self.counted = range(third, len(batches) - third)
        self.needed = needed or Needed([max(map(len, group)) for group in self.rows])

    @cached_property
    def rows(self) -> list[list[Array]]:
        """For each group the distinct rows of each batch."""
        resident = Resident(self.layout, self.singles)
        made: list[list[Array]] = [[] for _ in self.layout.groups]
        for batch in self.batches:
            for number, plan in enumerate(resident.plan(batch.ids, batch.lists, batch.n_valid)):
                assert plan.touched is not None, "it was planned as if it were trained"
                made[number].append(plan.touched.rows.numpy())
        return made

    @cached_property
    def inputs(self) -> int:
        """Inputs that are counted."""
        return sum(self.batches[number].n_valid for number in self.counted)

    @cached_property
    def lookups(self) -> int:
        """Rows that the counted batches need, each counted once a batch."""
        return sum(len(group[number]) for group in self.rows for number in self.counted)

    @cached_property
    def distances(self) -> list[tuple[Array, Array]]:
        """For each group of every access its distance, and the distinct rows before it."""
        made: list[tuple[Array, Array]] = []
        for group in self.rows:
            distances = lru_distances(np.concatenate(group))
            new = distances < 0
            made.append((distances, np.asarray(np.cumsum(new) - new)))
        return made

    def between(self, group: int) -> tuple[int, int]:
        """Where in a group's trace the counted batches begin and end."""
        lengths = np.cumsum([0, *map(len, self.rows[group])])
        return int(lengths[self.counted.start]), int(lengths[self.counted.stop])


def outcome(
    sample: Sample, popularity: Popularity, inputs: int, way: Way, budget: int, batch_size: int
) -> Outcome:
    """Count what the planner of training does with a budget, batch by batch.

    Args:
        sample: The batches.
        popularity: The accesses of all rows in the training part.
        inputs: Inputs of the training part.
        way: How the fast tier is used.
        budget: Its bytes.
        batch_size: Inputs of a batch.
    """
    groups = len(sample.layout.groups)
    came, left = [0] * groups, [0] * groups
    error = too_small_for_some(popularity.sizes, sample.needed.largest, budget)
    if error is not None:
        return Outcome(way.name, budget, 0, 0, came, left, True, error)
    rooms = share_out(
        popularity,
        inputs,
        budget,
        keep=way.keep,
        drawn=batch_size * way.window,
        needed=sample.needed,
    )
    refresh = None
    if way.keep:
        batches, most = inputs / batch_size, [len(room.keep) for room in rooms]
        known = popularity.accesses
        refresh = Refresh.of(way.refresh, batches, most, known=known, counted=batches)
    tiered = Tiered(sample.layout, sample.singles, rooms, way.window, refresh=refresh)
    for number, placed in enumerate(tiered.place(sample.batches, 1, update=True)):
        if number in sample.counted:
            for k, plan in enumerate(placed.groups):
                assert plan.fill is not None, "plans for two tiers say what comes"
                assert plan.evict is not None, "and what leaves"
                came[k] += len(plan.fill.rows)
                left[k] += len(plan.evict.rows)
    ahead = way.window > 1
    return Outcome(way.name, budget, sample.inputs, sample.lookups, came, left, ahead)


def caches(sample: Sample, popularity: Popularity, budget: int) -> list[Outcome]:
    """The same for a cache that drops what was used least recently, and for the best possible.

    With rows of several sizes, each group has the part of the budget that lookahead gives it.
    """
    error = too_small_for_some(popularity.sizes, sample.needed.largest, budget)
    if error is not None:
        none = [0] * len(popularity.sizes)
        return [Outcome(n, budget, 0, 0, none, none, True, error) for n in (LRU, BEST)]
    rooms = share_out(popularity, 1, budget, keep=False, drawn=0, needed=sample.needed)
    lru_in, lru_out, best = [], [], []
    for number, room in enumerate(rooms):
        start, stop = sample.between(number)
        distances, before = (one[start:stop] for one in sample.distances[number])
        missed = (distances < 0) | (distances >= room.slots)
        lru_in.append(int(missed.sum()))
        lru_out.append(int((missed & (before >= room.slots)).sum()))
        trace = np.concatenate(sample.rows[number])[start:stop]
        best.append(best_misses(trace, room.slots))
    counted = (budget, sample.inputs, sample.lookups)
    return [
        Outcome(LRU, *counted, lru_in, lru_out, ahead=False),
        Outcome(BEST, *counted, best, best, ahead=True),
    ]


def what_if(
    sample: Sample,
    popularity: Popularity,
    inputs: int,
    budgets: Sequence[int],
    batch_size: int,
    window: int | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> list[Outcome]:
    """Every way with every budget, and beside them LRU and the best possible.

    Args:
        sample: The batches to count on.
        popularity: The accesses of all rows in the training part.
        inputs: Inputs of the training part.
        budgets: Bytes of the fast tier.
        batch_size: Inputs of a batch.
        window: The most batches to look ahead; None is 200 for lookahead, 8 with kept rows.
        progress: Told the share done since the last time.
    """
    made = []
    for budget in budgets:
        for way in WAYS:
            if way.window > 1 and window is not None:
                way = replace(way, window=window)
            made.append(outcome(sample, popularity, inputs, way, budget, batch_size))
            progress(1 / (len(budgets) * (len(WAYS) + 1)))
        made.extend(caches(sample, popularity, budget))
        progress(1 / (len(budgets) * (len(WAYS) + 1)))
    return made
