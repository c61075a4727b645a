"""A fast tier of limited size: some rows stay in it, others come for the batches that need them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from slipstream.data.batch import Batch
from slipstream.data.inputs import Array
from slipstream.embedding.kernels import tiers
from slipstream.embedding.spec import Layout
from slipstream.errors import ConfigError
from slipstream.ordering.split import in_two
from slipstream.placement.popularity import Popular, Refresh
from slipstream.placement.resident import Resident
from slipstream.plan import GroupPlan, ListSlots, Moves, Placed


@dataclass(frozen=True)
class Room:
    """The fast tier of one group.

    Args:
        slots: Rows that fit.
        keep: Rows that stay in it for good, from the start.
    """

    slots: int
    keep: Array


_Read = tuple[Batch, tuple[GroupPlan, ...], tuple[int, ...]]


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
        self._tiers = [
            _Tier(group.rows, room) for group, room in zip(layout.groups, rooms, strict=True)
        ]
        self._refresh, self._split = refresh, split
        if refresh is not None:
            for number, (tier, room) in enumerate(zip(self._tiers, rooms, strict=True)):
                tier.popular = Popular(
                    layout.groups[number].rows,
                    room.keep,
                    refresh.most[number],
                    refresh.decay,
                    None if refresh.known is None else refresh.known[number],
                )

    def place(self, batches: Iterable[Batch], step: int, *, update: bool) -> Iterator[Placed]:
        """Where the rows of each batch are, what comes before it and what leaves after it."""
        waiting: deque[_Waiting] = deque()
        coming = iter(batches)
        held: _Read | None = None
        number = step
        while True:
            if self._refresh is not None and self._refresh.due(number):
                for place, tier in enumerate(self._tiers):
                    known = [one.groups for one in waiting] + ([held[1]] if held else [])
                    tier.choose([_rows(groups[place]) for groups in known], number)
            while len(waiting) < self._window:
                if held is None:
                    held = self._read(coming)
                if held is None:
                    break
                rows = [_rows(group) for group in held[1]]
                each = list(zip(self._tiers, rows, strict=True))
                fits = all(tier.fits(some, number) for tier, some in each)
                if not fits and waiting:
                    break
                if not fits:
                    self._say_what_fits(rows, number)
                after = max(tier.enter(some, number, number + len(waiting)) for tier, some in each)
                if self._refresh is not None and self._refresh.every:
                    for tier, group in zip(self._tiers, held[1], strict=True):
                        tier.count(group)
                waiting.append(_Waiting(*held, after))
                held = None
            if not waiting:
                return
            first = waiting.popleft()
            if held is None and self._refresh is not None:
                held = self._read(coming)
            placed = []
            for place, (tier, group) in enumerate(zip(self._tiers, first.groups, strict=True)):
                window = [_rows(one.groups[place]) for one in waiting]
                ahead = _rows(held[1][place]) if held is not None else None
                placed.append(tier.emit(group, number, update, window, ahead))
            yield Placed(first.batch, tuple(placed), first.after, first.parts)
            number += 1

    def kept(self) -> list[Moves]:
        """The rows that are in the fast tier from the start, and their slots."""
        return [tier.kept for tier in self._tiers]

    def _read(self, coming: Iterator[Batch]) -> _Read | None:
        """The next batch and its rows; None at the end."""
        batch = next(coming, None)
        if batch is None:
            return None
        batch, parts = self._in_parts(batch)
        return batch, self._resident.plan(batch.ids, batch.lists, batch.n_valid), parts

    def _in_parts(self, batch: Batch) -> tuple[Batch, tuple[int, ...]]:
        """The batch, split if that is wanted, and where its parts begin."""
        if not self._split:
            return batch, ()
        found = self._resident.plan(batch.ids, batch.lists, batch.n_valid, update=False)
        popular = np.ones(batch.n_valid, dtype=bool)
        for tier, group in zip(self._tiers, found, strict=True):
            popular &= tier.keeps_all(group, batch.n_valid)
        return in_two(batch, popular)

    def _say_what_fits(self, rows: list[Array], step: int) -> None:
        needed = [
            tier.kept_rows + tiers.count_new(some, tier.last_use, step)
            for tier, some in zip(self._tiers, rows, strict=True)
        ]
        have = [tier.slots for tier in self._tiers]
        raise ConfigError(
            f"A batch needs {sum(needed):,} rows in the fast tier, which has room for "
            f"{sum(have):,}. Give it more memory, keep fewer rows, or use smaller batches."
        )


@dataclass(frozen=True)
class _Waiting:
    """A batch in the window."""

    batch: Batch
    groups: tuple[GroupPlan, ...]
    parts: tuple[int, ...]
    after: int


class _Tier:
    """The fast tier of one group: which row is in which slot, and how long it is needed."""

    def __init__(self, rows: int, room: Room) -> None:
        if len(room.keep) > room.slots:
            raise ConfigError(
                f"{len(room.keep):,} rows cannot be kept in {room.slots:,} slots; keep fewer."
            )
        self.slots = room.slots
        self.kept_rows = len(room.keep)
        self.slot_of = np.full(rows, -1, dtype=np.int32)
        self.last_use = np.zeros(rows, dtype=np.int32)
        slots = np.arange(len(room.keep), dtype=np.int32)
        self.slot_of[room.keep] = slots
        self.last_use[room.keep] = tiers.KEPT
        self.kept = _moves(np.asarray(room.keep, dtype=np.int64), slots)
        # Popped from the end: low slots first.
        self.n_free = room.slots - len(room.keep)
        self.free = np.zeros(room.slots, dtype=np.int32)
        self.free[: self.n_free] = np.arange(room.slots - 1, len(room.keep) - 1, -1)
        self.wanted = 0  # rows that are not kept: those of the window, and those about to leave
        self.popular: Popular | None = None
        self.leaving = np.empty(0, dtype=np.int64)

    def fits(self, rows: Array, first: int) -> bool:
        """Whether a batch's rows fit beside those of the window that begins at step `first`."""
        new = tiers.count_new(rows, self.last_use, first)
        return bool(self.wanted + new <= self.slots - self.kept_rows)

    def enter(self, rows: Array, first: int, step: int) -> int:
        """A batch enters the window; gives the step whose write-backs its rows wait for."""
        self.wanted += tiers.count_new(rows, self.last_use, first)
        return int(tiers.enter(rows, self.last_use, first, step))

    def count(self, group: GroupPlan) -> None:
        """The rows of a batch that has entered the window; each counts once, as it comes once."""
        if self.popular is not None and group.touched is not None:
            rows = group.touched.rows.numpy()
            self.popular.count(rows, np.ones(len(rows)))

    def choose(self, window: Sequence[Array], step: int) -> None:
        """Choose the kept rows anew; the batches that were read begin at this step."""
        assert self.popular is not None, "only tiers that learn what is popular choose"
        dropped = self.popular.choose()
        dropped = dropped[self.last_use[dropped] == tiers.KEPT]
        self.kept_rows -= len(dropped)
        self.wanted += len(dropped)
        self.last_use[dropped] = step
        is_dropped = np.zeros(len(self.last_use), dtype=bool)
        is_dropped[dropped] = True
        for later, rows in enumerate(window):
            self.last_use[rows[is_dropped[rows]]] = step + later
        self.leaving = dropped[self.last_use[dropped] == step]

    def keeps_all(self, group: GroupPlan, n: int) -> Array:
        """Whether all rows of each input are kept, and so in the fast tier by now."""
        kept = (self.last_use[group.slots.numpy()[:, :n]] == tiers.KEPT).all(axis=0)
        for one in group.lists.values():
            others = self.last_use[one.slots.numpy()] != tiers.KEPT
            before = np.concatenate([[0], np.cumsum(others)])[one.offsets.numpy()]
            kept &= np.diff(before)[:n] == 0
        return kept

    def emit(
        self,
        group: GroupPlan,
        step: int,
        update: bool,
        window: Sequence[Array],
        ahead: Array | None,
    ) -> GroupPlan:
        """The plan of the first batch of the window, which then leaves it.

        Args:
            group: The batch.
            step: Its number.
            update: Whether the plan is for training.
            window: The rows of the batches behind it.
            ahead: The rows of the batch behind these.
        """
        assert group.touched is not None, "the rows of a batch are found as if it were trained"
        rows = group.touched.rows.numpy()
        fill_rows = np.empty(len(rows), dtype=np.int64)
        fill_slots = np.empty(len(rows), dtype=np.int32)
        n = tiers.bring_in(rows, self.slot_of, self.free, self.n_free, fill_rows, fill_slots)
        self.n_free -= n
        fill = _moves(fill_rows[:n], fill_slots[:n])
        touched = replace(group.touched, rows=self._slots(group.touched.rows))
        slots = self._slots(group.slots)
        lists = {
            k: ListSlots(self._slots(one.slots), one.offsets) for k, one in group.lists.items()
        }
        if self.popular is not None:
            stay = rows[self.popular.chosen[rows] & (self.last_use[rows] != tiers.KEPT)]
            self.last_use[stay] = tiers.KEPT
            self.kept_rows += len(stay)
            self.wanted -= len(stay)
            if ahead is not None:
                self._make_room(self.popular, step, window, ahead)
        away = rows if not len(self.leaving) else self._with_leaving(rows)
        away_rows = np.empty(len(away), dtype=np.int64)
        away_slots = np.empty(len(away), dtype=np.int32)
        gone = tiers.send_away(
            away,
            self.slot_of,
            self.last_use,
            step,
            self.free,
            self.n_free,
            away_rows,
            away_slots,
        )
        self.n_free += gone
        self.wanted -= gone
        evict = _moves(away_rows[:gone], away_slots[:gone])
        return GroupPlan(slots, lists, touched if update else None, fill, evict)

    def _make_room(
        self, popular: Popular, step: int, window: Sequence[Array], ahead: Array
    ) -> None:
        """Keep fewer rows where a coming batch would not fit beside them: slower, never wrong."""
        needed = int((self.last_use[ahead] != tiers.KEPT).sum())
        short = needed - (self.slots - self.kept_rows)
        if short <= 0:
            return
        spare = self.last_use == tiers.KEPT
        for needs in (*window, ahead):
            spare[needs] = False
        dropped = popular.drop(np.flatnonzero(spare), short)
        self.kept_rows -= len(dropped)
        self.wanted += len(dropped)
        self.last_use[dropped] = step
        self.leaving = np.concatenate([self.leaving, dropped])

    def _with_leaving(self, rows: Array) -> Array:
        others = np.setdiff1d(self.leaving, rows)  # its own rows a plan sends away by itself
        self.leaving = self.leaving[:0]
        return np.concatenate([rows, others])

    def _slots(self, rows: Tensor) -> Tensor:
        slots = torch.empty_like(rows)
        tiers.to_slots(rows.view(-1).numpy(), self.slot_of, slots.view(-1).numpy())
        return slots


def _rows(group: GroupPlan) -> Array:
    assert group.touched is not None, "the rows of a batch are found as if it were trained"
    return group.touched.rows.numpy()


def _moves(rows: Array, slots: Array) -> Moves:
    return Moves(torch.from_numpy(rows), torch.from_numpy(slots.astype(np.int64)))
