"""A fast tier of limited size: some rows stay in it, others come for the batches that need them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slipstream.data.batch import Batch
from slipstream.data.inputs import Array
from slipstream.errors import ConfigError
from slipstream.pipeline.place.popularity import Refresh
from slipstream.pipeline.place.split import in_two
from slipstream.pipeline.place.tier import Room, Tier
from slipstream.tables.no_cache import Resident
from slipstream.tables.plan import GroupPlan, Moves, Moving, Placed, moving_of
from slipstream.tables.spec import Layout


class Tiered:
    """Plans which rows are brought into the fast tier, and which leave it, looking ahead.

    A row that a batch in the window needs is never sent away. The window is as long as its rows
    fit, up to `window` batches: what does not fit makes it shorter, never wrong. A batch that does
    not fit even alone is trained in the slow tier. Nothing that decides reads the clock: the same
    batches give the same plans.

    Which rows are kept can be chosen anew on the way. A row that is chosen comes with the next
    batch that needs it, and stays; one that is no longer leaves with the next plan, or when the
    window needs it no more.

    Args:
        layout: Tables and features.
        singles: The names of the columns in the block of single ids, in order.
        rooms: The fast tier of each group.
        window: The most batches to look ahead, the current one among them.
        refresh: When kept rows are chosen anew; None keeps the same ones for good.
        split: Whether inputs whose rows are all kept come first in their batch, as a part of it.
    """

    def __init__(
        self,
        layout: Layout,
        singles: Sequence[str],
        rooms: Sequence[Room],
        window: int,
        *,
        refresh: Refresh | None = None,
        split: bool = False,
    ) -> None:
        if window < 1:
            raise ConfigError(f"The window is {window} batches; it must be at least 1.")
        self._resident = Resident(layout, singles)
        self._window = window
        self._groups, self._rooms = layout.groups, rooms
        self._refresh, self._split = refresh, split
        self._tiers = self._fresh()

    def place(
        self,
        batches: Iterable[Batch],
        step: int,
        *,
        update: bool,
        moves: Moving | None = None,
    ) -> Iterator[Placed]:
        """Where the rows of each batch are, what comes before it and what leaves after it."""
        self._tiers = self._fresh()  # plans do not depend on what was placed before
        coming = (self._read(batch, update, moves) for batch in batches)
        waiting: deque[_Waiting] = deque()
        held = next(coming, None)
        number = step
        while held is not None or waiting:
            if self._refresh is not None and self._refresh.due(number):
                known = [one.read for one in waiting] + ([held] if held is not None else [])
                for place, tier in enumerate(self._tiers):
                    tier.choose([one.rows[place] for one in known], number)
            while held is not None and len(waiting) < self._window:
                if (after := self._enter(held, number, len(waiting))) is None:
                    break
                waiting.append(_Waiting(held, after))
                held = next(coming, None)
            if waiting:
                first, after = waiting.popleft()
                yield self._emit(first, after, number, [one.read for one in waiting], held)
            else:
                assert held is not None, "there is a batch, in the window or before it"
                first, held = held, next(coming, None)
                yield self._aside(first, number, held)
            number += 1

    def _enter(self, read: _Read, first: int, place: int) -> int | None:
        """Let a batch into the window at some place, where its rows fit.

        Returns:
            The step whose write-backs it waits for; None where it does not fit.
        """
        each = list(zip(self._tiers, read.rows, strict=True))
        found = [tier.survey(rows, first) for tier, rows in each]
        if not all(tier.fits(new) for tier, (new, _) in zip(self._tiers, found, strict=True)):
            return None
        for (tier, rows), (new, _) in zip(each, found, strict=True):
            tier.enter(rows, new, first + place)
        self._count(read)
        return max((after for _, after in found), default=0)

    def _count(self, read: _Read) -> None:
        if self._refresh is not None and self._refresh.every:
            for tier, rows in zip(self._tiers, read.rows, strict=True):
                tier.count(rows)

    def _emit(
        self, first: _Read, after: int, number: int, window: list[_Read], held: _Read | None
    ) -> Placed:
        """The first batch of the window leaves it, with its rows in the fast tier."""
        placed = []
        for place, (tier, group) in enumerate(zip(self._tiers, first.groups, strict=True)):
            behind = [one.rows[place] for one in window]
            ahead = held.rows[place] if held is not None else None
            placed.append(tier.emit(group, first.rows[place], number, behind, ahead))
        return Placed(first.batch, tuple(placed), after, first.parts)

    def _aside(self, first: _Read, number: int, held: _Read | None) -> Placed:
        """A batch whose rows do not fit even alone is trained in the slow tier, in one part."""
        self._count(first)
        placed = []
        for place, (tier, group) in enumerate(zip(self._tiers, first.groups, strict=True)):
            ahead = held.rows[place] if held is not None else None
            placed.append(tier.aside(group, first.rows[place], number, ahead))
        return Placed(first.batch, tuple(placed), number - 1)

    def _fresh(self) -> list[Tier]:
        """The tiers as they are before the first batch."""
        made = []
        for number, (group, room) in enumerate(zip(self._groups, self._rooms, strict=True)):
            popular = None
            if self._refresh is not None:
                popular = self._refresh.popular(number, group.rows, room.keep)
            made.append(Tier(group.rows, room, popular))
        return made

    look = None

    @property
    def remembers(self) -> bool:
        """Whether batches come in parts, which follow from what was kept by then."""
        return self._split

    def kept(self) -> list[Moves]:
        """The rows that are in the fast tier, and their slots: after the last plan, or at first."""
        return [tier.held() for tier in self._tiers]

    def _read(self, batch: Batch, update: bool, moves: Moving | None) -> _Read:
        """A batch with the rows that it needs, and those of them that it moves."""
        batch, parts = self._in_parts(batch)
        groups = self._resident.plan(batch.ids, batch.lists, batch.n_valid)
        rows = [_rows(group) for group in groups]
        if not update:
            groups = tuple(replace(group, touched=None) for group in groups)
        elif moves is not None:
            groups = moving_of(groups, moves(batch))
        return _Read(batch, groups, rows, parts)

    def _in_parts(self, batch: Batch) -> tuple[Batch, tuple[int, ...]]:
        """The batch, split if that is wanted, and where its parts begin."""
        if not self._split:
            return batch, ()
        found = self._resident.plan(batch.ids, batch.lists, batch.n_valid, update=False)
        popular = np.ones(batch.n_valid, dtype=bool)
        for tier, group in zip(self._tiers, found, strict=True):
            popular &= tier.keeps_all(group, batch.n_valid)
        return in_two(batch, popular)


class _Read(NamedTuple):
    """A batch that was read, and where its rows are in the slow store.

    Args:
        batch: The batch.
        groups: Where its rows are, and what its update moves.
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
