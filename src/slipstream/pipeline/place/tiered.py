"""Plans a fast tier of limited size: popular rows stay in it, other rows come and go."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slipstream.arrays import Array
from slipstream.data.batch import Batch
from slipstream.errors import ConfigError
from slipstream.pipeline.place.popularity import Refresh
from slipstream.pipeline.place.split import in_two
from slipstream.pipeline.place.tier import Tier, TierSize
from slipstream.tables.no_cache import NoCache
from slipstream.tables.plan import Batches, GroupPlan, Placed, RowFilter, RowSlots, filter_rows
from slipstream.tables.spec import Layout


class Tiered:
    """Plans which rows are brought into the fast tier, and which leave it, looking ahead.

    A row that a batch in the window needs is never evicted. The window has at most `window`
    batches, and fewer if their rows do not fit. A batch that does not fit even alone is trained in
    the slow tier. Planning never reads the clock: the same batches give the same plans.

    The kept rows can be chosen anew during training. A newly chosen row comes with the next batch
    that needs it, and stays. A row that is no longer chosen leaves with the next plan, or as soon
    as no batch in the window needs it.

    Args:
        layout: Tables and features.
        singles: The names of the columns in the block of single ids, in order.
        tier_sizes: The fast tier of each group.
        window: The most batches to look ahead, the current one among them.
        refresh: When kept rows are chosen anew; None never does.
        split: Whether inputs whose rows are all kept come first in their batch, as a part of it.
    """

    def __init__(
        self,
        layout: Layout,
        singles: Sequence[str],
        tier_sizes: Sequence[TierSize],
        window: int = 1,
        *,
        refresh: Refresh | None = None,
        split: bool = False,
    ) -> None:
        if window < 1:
            raise ConfigError(f"The window is {window} batches; it must be at least 1.")
        self._resident = NoCache(layout, singles)
        self._window = window
        self._groups, self._tier_sizes = layout.groups, tier_sizes
        self._refresh, self._split = refresh, split
        self._tiers = self._fresh()

    def place(
        self, batches: Batches, step: int, *, update: bool, row_filter: RowFilter | None = None
    ) -> Iterator[Placed]:
        """Where the rows of each batch are, which come before it, and which leave after it."""
        self._tiers = self._fresh()  # plans do not depend on what was placed before
        coming = (self._read(batch, update, row_filter) for batch in batches)
        waiting: deque[_Waiting] = deque()
        next_batch = next(coming, None)
        number = step
        while next_batch is not None or waiting:
            if self._refresh is not None and self._refresh.due(number):
                known = [waiting_batch.read for waiting_batch in waiting] + (
                    [next_batch] if next_batch is not None else []
                )
                for place, tier in enumerate(self._tiers):
                    tier.choose([read.rows[place] for read in known], number)
            while next_batch is not None and len(waiting) < self._window:
                if (after := self._enter(next_batch, number, len(waiting))) is None:
                    break
                waiting.append(_Waiting(next_batch, after))
                next_batch = next(coming, None)
            if waiting:
                first, after = waiting.popleft()
                yield self._emit(
                    first,
                    after,
                    number,
                    [waiting_batch.read for waiting_batch in waiting],
                    next_batch,
                )
            else:
                assert next_batch is not None, "there is a batch, in the window or before it"
                first, next_batch = next_batch, next(coming, None)
                yield self._oversized_batch(first, number, next_batch)
            number += 1

    def _enter(self, read: _Read, first: int, place: int) -> int | None:
        """Add a batch to the window if its rows fit.

        Returns:
            The step whose write-backs it waits for; None if it does not fit.
        """
        each = list(zip(self._tiers, read.rows, strict=True))
        surveys = [tier.survey(rows, first) for tier, rows in each]
        if not all(tier.fits(new) for tier, (new, _) in zip(self._tiers, surveys, strict=True)):
            return None
        for (tier, rows), (new, _) in zip(each, surveys, strict=True):
            tier.enter(rows, new, first + place)
        self._count(read)
        return max((after for _, after in surveys), default=0)

    def _count(self, read: _Read) -> None:
        if self._refresh is not None and self._refresh.every:
            for tier, rows in zip(self._tiers, read.rows, strict=True):
                tier.count(rows)

    def _emit(
        self, first: _Read, after: int, number: int, window: list[_Read], next_batch: _Read | None
    ) -> Placed:
        """Take the first batch out of the window; its rows are in the fast tier."""
        placed = []
        for place, (tier, group) in enumerate(zip(self._tiers, first.groups, strict=True)):
            behind = [later_batch.rows[place] for later_batch in window]
            ahead = next_batch.rows[place] if next_batch is not None else None
            placed.append(tier.emit(group, first.rows[place], number, behind, ahead))
        return Placed(first.batch, tuple(placed), after, first.parts)

    def _oversized_batch(self, first: _Read, number: int, next_batch: _Read | None) -> Placed:
        """Place a batch that does not fit even alone: the slow tier trains it, in one part."""
        self._count(first)
        placed = []
        for place, (tier, group) in enumerate(zip(self._tiers, first.groups, strict=True)):
            ahead = next_batch.rows[place] if next_batch is not None else None
            placed.append(tier.oversized_batch(group, first.rows[place], number, ahead))
        return Placed(first.batch, tuple(placed), number - 1)

    def _fresh(self) -> list[Tier]:
        """The tiers before the first batch."""
        tiers = []
        for number, (group, tier_size) in enumerate(
            zip(self._groups, self._tier_sizes, strict=True)
        ):
            popular = None
            if self._refresh is not None:
                popular = self._refresh.popular(number, group.rows, tier_size.keep)
            tiers.append(Tier(group.rows, tier_size, popular))
        return tiers

    on_read = None

    @property
    def remembers(self) -> bool:
        """Whether batches come in parts, which follow from what was kept by then."""
        return self._split

    def resident_rows(self) -> list[RowSlots]:
        """The rows in the fast tier and their slots: after the last plan, or at the start."""
        return [tier.contents() for tier in self._tiers]

    def _read(self, batch: Batch, update: bool, row_filter: RowFilter | None) -> _Read:
        """A batch with the rows that it needs, and the rows that it updates."""
        batch, parts = self._in_parts(batch)
        groups = self._resident.plan(batch.ids, batch.lists, batch.n_valid)
        rows = [_rows(group) for group in groups]
        if not update:
            groups = tuple(replace(group, touched=None) for group in groups)
        elif row_filter is not None:
            groups = filter_rows(groups, row_filter(batch))
        return _Read(batch, groups, rows, parts)

    def _in_parts(self, batch: Batch) -> tuple[Batch, tuple[int, ...]]:
        """The batch, split if that is wanted, and where its parts begin."""
        if not self._split:
            return batch, ()
        groups = self._resident.plan(batch.ids, batch.lists, batch.n_valid, update=False)
        popular = np.ones(batch.n_valid, dtype=bool)
        for tier, group in zip(self._tiers, groups, strict=True):
            popular &= tier.keeps_all(group, batch.n_valid)
        return in_two(batch, popular)


class _Read(NamedTuple):
    """A batch that was read, and where its rows are in the slow store.

    Args:
        batch: The batch.
        groups: Where its rows are, and which of them the update changes.
        rows: For each group the distinct rows that it needs.
        parts: Where its parts begin.
    """

    batch: Batch
    groups: tuple[GroupPlan, ...]
    rows: list[Array]
    parts: tuple[int, ...]


class _Waiting(NamedTuple):
    """A batch in the window, and the step whose write-backs it waits for."""

    read: _Read
    after: int


def _rows(group: GroupPlan) -> Array:
    assert group.touched is not None, "the rows of a batch are found as if it were trained"
    return group.touched.rows.numpy()
