"""A fast tier of limited size: some rows stay in it, others come for the batches that need them."""

from __future__ import annotations

import math
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


class Tiered:
    """Plans which rows are brought into the fast tier, and which leave it, looking ahead.

    A row that a batch in the window needs is never sent away. The window is as long as its rows
    fit, up to `window` batches: what does not fit makes it shorter, never wrong. Nothing that
    decides reads the clock: the same batches give the same plans.

    Args:
        layout: Tables and features.
        singles: The names of the columns in the block of single ids, in order.
        rooms: The fast tier of each group.
        window: The most batches to look ahead, the current one among them.
    """

    def __init__(
        self, layout: Layout, singles: Sequence[str], rooms: Sequence[Room], window: int
    ) -> None:
        if window < 1:
            raise ConfigError(f"The window is {window} batches; it must be at least 1.")
        self._resident = Resident(layout, singles)
        self._window = window
        self._groups, self._rooms = layout.groups, rooms
        self._tiers = self._fresh()

    def place(self, batches: Iterable[Batch], step: int, *, update: bool) -> Iterator[Placed]:
        """Where the rows of each batch are, what comes before it and what leaves after it."""
        self._tiers = self._fresh()  # plans do not depend on what was placed before
        waiting: deque[_Waiting] = deque()
        coming = iter(batches)
        held: tuple[Batch, tuple[GroupPlan, ...]] | None = None
        number = step
        while True:
            while len(waiting) < self._window:
                if held is None:
                    batch = next(coming, None)
                    if batch is None:
                        break
                    plan = self._resident.plan(batch.ids, batch.lists, batch.n_valid)
                    held = batch, plan
                rows = [_rows(group) for group in held[1]]
                each = list(zip(self._tiers, rows, strict=True))
                found = [tier.survey(some, number) for tier, some in each]
                new = [added for added, _ in found]
                if not all(t.fits(added) for t, added in zip(self._tiers, new, strict=True)):
                    if waiting:
                        break
                    self._say_what_fits(new, number)
                for (tier, some), added in zip(each, new, strict=True):
                    tier.enter(some, added, number + len(waiting))
                after = max((step for _, step in found), default=0)
                waiting.append(_Waiting(*held, after))
                held = None
            if not waiting:
                return
            batch, groups, after = waiting.popleft().parts
            placed = tuple(
                tier.emit(group, number, update)
                for tier, group in zip(self._tiers, groups, strict=True)
            )
            yield Placed(batch, placed, after)
            number += 1

    def _fresh(self) -> list[_Tier]:
        pairs = zip(self._groups, self._rooms, strict=True)
        return [_Tier(group.rows, room) for group, room in pairs]

    def kept(self) -> list[Moves]:
        """The rows that are in the fast tier from the start, and their slots."""
        return [tier.kept for tier in self._tiers]

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


@dataclass(frozen=True)
class _Waiting:
    """A batch in the window."""

    batch: Batch
    groups: tuple[GroupPlan, ...]
    after: int

    @property
    def parts(self) -> tuple[Batch, tuple[GroupPlan, ...], int]:
        return self.batch, self.groups, self.after


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
        self.free = np.arange(room.slots - 1, len(room.keep) - 1, -1, dtype=np.int32)
        self.n_free = len(self.free)
        self.wanted = 0  # rows of the window that are not kept

    def survey(self, rows: Array, first: int) -> tuple[int, int]:
        """The rows that a batch adds to the window, and the step whose write-backs it waits for."""
        new, after = tiers.survey(rows, self.last_use, first)
        return int(new), int(after)

    def fits(self, new: int) -> bool:
        """Whether so many more rows fit beside those of the window."""
        return self.wanted + new <= len(self.free)

    def enter(self, rows: Array, new: int, step: int) -> None:
        """A batch enters the window, with so many rows that were not in it yet."""
        self.wanted += new
        tiers.enter(rows, self.last_use, step)

    def emit(self, group: GroupPlan, step: int, update: bool) -> GroupPlan:
        """The plan of the first batch of the window, which then leaves it."""
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
        away_rows, away_slots = np.empty_like(fill_rows), np.empty_like(fill_slots)
        gone = tiers.send_away(
            rows,
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

    def _slots(self, rows: Tensor) -> Tensor:
        slots = torch.empty_like(rows)
        tiers.to_slots(rows.view(-1).numpy(), self.slot_of, slots.view(-1).numpy())
        return slots


def _rows(group: GroupPlan) -> Array:
    assert group.touched is not None, "the rows of a batch are found as if it were trained"
    return group.touched.rows.numpy()


def _moves(rows: Array, slots: Array) -> Moves:
    return Moves(torch.from_numpy(rows), torch.from_numpy(slots.astype(np.int64)))
