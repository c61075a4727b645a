"""A fast tier of limited size: some rows stay in it, others come for the batches that need them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slipstream.data.batch import Batch
from slipstream.data.inputs import Array
from slipstream.embedding.spec import Layout
from slipstream.errors import ConfigError
from slipstream.ordering.split import in_two
from slipstream.placement.popularity import Popular, Refresh
from slipstream.placement.resident import Resident
from slipstream.placement.tier import Room, Tier
from slipstream.plan import GroupPlan, Moves, Moving, Placed, moving_of


class Tiered:
    """Plans which rows are brought into the fast tier, and which leave it, looking ahead.

    A row that a batch in the window needs is never sent away. The window is as long as its rows
    fit, up to `window` batches: what does not fit makes it shorter, never wrong. Nothing that
    decides reads the clock: the same batches give the same plans.

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
        waiting: deque[_Waiting] = deque()
        coming = (self._read(batch, update, moves) for batch in batches)
        held: _Read | None = None
        number = step
        while True:
            if self._refresh is not None and self._refresh.due(number):
                for place, tier in enumerate(self._tiers):
                    known = [one.read for one in waiting] + ([held] if held else [])
                    tier.choose([one.rows[place] for one in known], number)
            while len(waiting) < self._window:
                if held is None:
                    held = next(coming, None)
                if held is None:
                    break
                each = list(zip(self._tiers, held.rows, strict=True))
                found = [tier.survey(some, number) for tier, some in each]
                new = [added for added, _ in found]
                if not all(t.fits(added) for t, added in zip(self._tiers, new, strict=True)):
                    if waiting:
                        break
                    self._say_what_fits(new, number)
                for (tier, some), added in zip(each, new, strict=True):
                    tier.enter(some, added, number + len(waiting))
                after = max((step for _, step in found), default=0)
                if self._refresh is not None and self._refresh.every:
                    for tier, some in each:
                        tier.count(some)
                waiting.append(_Waiting(held, after))
                held = None
            if not waiting:
                return
            first, after = waiting.popleft()
            if held is None and self._refresh is not None:
                held = next(coming, None)
            placed = []
            for place, (tier, group) in enumerate(zip(self._tiers, first.groups, strict=True)):
                window = [one.read.rows[place] for one in waiting]
                ahead = held.rows[place] if held is not None else None
                placed.append(tier.emit(group, first.rows[place], number, window, ahead))
            yield Placed(first.batch, tuple(placed), after, first.parts)
            number += 1

    def _fresh(self) -> list[Tier]:
        """The tiers as they are before the first batch."""
        made = []
        for number, (group, room) in enumerate(zip(self._groups, self._rooms, strict=True)):
            popular = None
            if self._refresh is not None:
                known = self._refresh.known
                popular = Popular(
                    group.rows,
                    room.keep,
                    self._refresh.most[number],
                    self._refresh.decay,
                    None if known is None else known[number],
                )
            made.append(Tier(group.rows, room, popular))
        return made

    def kept(self) -> list[Moves]:
        """The rows that are in the fast tier from the start, and their slots."""
        return [tier.kept for tier in self._tiers]

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

    def _say_what_fits(self, new: list[int], step: int) -> None:
        """Raise the error of a batch that does not fit alone, about what lacks the most room."""
        lacking = [
            ((tier.kept_rows + rows) / tier.slots, tier.kept_rows + rows, tier, group.tables)
            for tier, rows, group in zip(self._tiers, new, self._groups, strict=True)
        ]
        times, needed, tier, tables = max(lacking, key=lambda one: one[0])
        names = ", ".join(table.name for table in tables[:3]) + (", ..." if tables[3:] else "")
        raise ConfigError(
            f"The batch of step {step} needs {needed:,} rows of {names} in the fast tier, "
            f"{tier.kept_rows:,} kept ones among them, and there is room for {tier.slots:,}. "
            f"Give placement.fast_memory {math.ceil(times * 100) / 100:,.2f} times as much, or use "
            "smaller batches."
        )


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
