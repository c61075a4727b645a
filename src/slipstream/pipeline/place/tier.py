"""The fast tier of one group: which row is in which slot, and how long it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from slipstream.arrays import Array
from slipstream.errors import ConfigError
from slipstream.pipeline.place.popularity import Popular
from slipstream.tables.kernels import tiers
from slipstream.tables.plan import GroupPlan, ListSlots, RowSlots


@dataclass(frozen=True)
class TierSize:
    """The fast tier of one group.

    Args:
        slots: Rows that fit.
        keep: Rows that stay in it for good, from the start.
    """

    slots: int
    keep: Array


class Tier:
    """The fast tier of one group: which row is in which slot, and how long it is needed."""

    def __init__(self, rows: int, tier_size: TierSize, popular: Popular | None = None) -> None:
        if len(tier_size.keep) > tier_size.slots:
            raise ConfigError(
                f"{len(tier_size.keep):,} rows cannot be kept in {tier_size.slots:,} slots; "
                "keep fewer."
            )
        self.slots = tier_size.slots
        self.kept_rows = len(tier_size.keep)
        self.slot_of = np.full(rows, -1, dtype=np.int32)
        self.last_use = np.zeros(rows, dtype=np.int32)
        slots = np.arange(len(tier_size.keep), dtype=np.int32)
        self.slot_of[tier_size.keep] = slots
        self.last_use[tier_size.keep] = tiers.ALWAYS_KEPT
        # Popped from the end: low slots first.
        self.n_free = tier_size.slots - len(tier_size.keep)
        self.free = np.zeros(tier_size.slots, dtype=np.int32)
        self.free[: self.n_free] = np.arange(tier_size.slots - 1, len(tier_size.keep) - 1, -1)
        self.wanted = 0  # rows that are not kept: those of the window, and those about to leave
        self.popular = popular
        self.leaving = np.empty(0, dtype=np.int64)

    def contents(self) -> RowSlots:
        """The rows in the fast tier, and their slots."""
        rows = np.flatnonzero(self.slot_of >= 0)
        return _moves(rows, self.slot_of[rows])

    def survey(self, rows: Array, first: int) -> tuple[int, int]:
        """The rows that a batch adds to the window, and the step whose write-backs it waits for."""
        new, after = tiers.survey(rows, self.last_use, first)
        return int(new), int(after)

    def fits(self, new: int) -> bool:
        """Whether so many more rows fit beside those of the window."""
        return self.wanted + new <= self.slots - self.kept_rows

    def enter(self, rows: Array, new: int, step: int) -> None:
        """A batch enters the window, with so many rows that were not in it yet."""
        self.wanted += new
        tiers.enter(rows, self.last_use, step)

    def count(self, rows: Array) -> None:
        """The rows of a batch that has entered the window; each counts once, as it comes once."""
        if self.popular is not None:
            self.popular.count(rows)

    def choose(self, window: Sequence[Array], step: int) -> None:
        """Choose the kept rows anew; the batches that were read begin at this step."""
        assert self.popular is not None, "only tiers that learn what is popular choose"
        dropped = self.popular.choose()
        dropped = dropped[self.last_use[dropped] == tiers.ALWAYS_KEPT]
        self.kept_rows -= len(dropped)
        self.wanted += len(dropped)
        self.last_use[dropped] = tiers.LET_GO
        for later, rows in enumerate(window):
            tiers.need_again(rows, self.last_use, later)
        later = np.maximum(tiers.LET_GO - 1 - self.last_use[dropped], 0)
        self.last_use[dropped] = step + later
        self.leaving = dropped[later == 0]

    def keeps_all(self, group: GroupPlan, n: int) -> Array:
        """Whether all rows of each example are kept, and so in the fast tier by now."""
        all_kept = (self.last_use[group.slots.numpy()[:, :n]] == tiers.ALWAYS_KEPT).all(axis=0)
        for list_slots in group.lists.values():
            others = self.last_use[list_slots.slots.numpy()] != tiers.ALWAYS_KEPT
            before = np.concatenate([[0], np.cumsum(others)])[list_slots.offsets.numpy()]
            all_kept &= np.diff(before)[:n] == 0
        return all_kept

    def emit(
        self,
        group: GroupPlan,
        rows: Array,
        step: int,
        window: Sequence[Array],
        ahead: Array | None,
    ) -> GroupPlan:
        """The plan of the first batch of the window, which then leaves it.

        Args:
            group: Where its rows are in the slow store.
            rows: The distinct rows that it needs, whether it updates them or not.
            step: Its number.
            window: The rows of the batches behind it.
            ahead: The rows of the batch behind these.
        """
        fill_rows = np.empty(len(rows), dtype=np.int64)
        fill_slots = np.empty(len(rows), dtype=np.int32)
        n = tiers.bring_in(rows, self.slot_of, self.free, self.n_free, fill_rows, fill_slots)
        self.n_free -= n
        fill = _moves(fill_rows[:n], fill_slots[:n])
        touched = group.touched
        if touched is not None:
            touched = replace(touched, rows=self._slots(touched.rows))
        slots = self._slots(group.slots)
        lists = {
            k: ListSlots(self._slots(list_slots.slots), list_slots.offsets)
            for k, list_slots in group.lists.items()
        }
        if self.popular is not None:
            if self.kept_rows < self.popular.number:  # some that are chosen were not needed since
                stay = tiers.keep(rows, self.popular.chosen, self.last_use)
                self.kept_rows += stay
                self.wanted -= stay
            if ahead is not None:
                self._make_room(self.popular, step, window, ahead)
        evict = self._send_away(rows, step)
        return GroupPlan(slots, lists, touched, fill, evict, len(rows), self.kept_rows)

    def oversized_batch(
        self, group: GroupPlan, rows: Array, step: int, ahead: Array | None
    ) -> GroupPlan:
        """The plan of a batch that is trained in the slow tier; no other is in the window."""
        here = rows[self.slot_of[rows] >= 0]
        borrowed = _moves(here, self.slot_of[here])
        tiers.enter(rows, self.last_use, step)
        if self.popular is not None and ahead is not None:
            self._make_room(self.popular, step, (), ahead)
        evict = self._send_away(here, step)
        return replace(
            group, evict=evict, needs=len(rows), kept_rows=self.kept_rows, borrowed=borrowed
        )

    def _send_away(self, rows: Array, step: int) -> RowSlots:
        """Free the slots of rows that nothing in sight needs: some of these, and what was left."""
        away = rows if not len(self.leaving) else np.concatenate([rows, self.leaving])
        self.leaving = self.leaving[:0]
        away_rows = np.empty(len(away), dtype=np.int64)
        away_slots = np.empty(len(away), dtype=np.int32)
        freed = tiers.send_away(
            away,
            self.slot_of,
            self.last_use,
            step,
            self.free,
            self.n_free,
            away_rows,
            away_slots,
        )
        self.n_free += freed
        self.wanted -= freed
        return _moves(away_rows[:freed], away_slots[:freed])

    def _make_room(
        self, popular: Popular, step: int, window: Sequence[Array], ahead: Array
    ) -> None:
        """Keep fewer rows where a coming batch would not fit beside them: slower, never wrong."""
        if len(ahead) > self.slots:
            return  # it is trained in the slow tier, whatever is kept
        if len(ahead) <= self.slots - self.kept_rows:
            return  # it fits, even if it needs nothing that is kept
        short = tiers.not_kept(ahead, self.last_use) - (self.slots - self.kept_rows)
        if short <= 0:
            return
        spare = self.last_use == tiers.ALWAYS_KEPT
        for needs in (*window, ahead):
            spare[needs] = False
        dropped = popular.drop(np.flatnonzero(spare), short)
        self.kept_rows -= len(dropped)
        self.wanted += len(dropped)
        self.last_use[dropped] = step
        self.leaving = np.concatenate([self.leaving, dropped])

    def _slots(self, rows: Tensor) -> Tensor:
        slots = torch.empty_like(rows)
        tiers.to_slots(rows.view(-1).numpy(), self.slot_of, slots.view(-1).numpy())
        return slots


def _moves(rows: Array, slots: Array) -> RowSlots:
    return RowSlots(rows, slots.astype(np.int64))
