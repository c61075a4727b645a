"""Which rows are in the slots of a device, and how they are copied between steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from slipstream.arrays import Array
from slipstream.errors import SlipstreamError
from slipstream.gpu.step.arena import Arena
from slipstream.gpu.transfer.bundle import PlanRun
from slipstream.gpu.transfer.gather import Pool, find, note, note_pages
from slipstream.gpu.transfer.group_packing import tiers_of
from slipstream.gpu.transfer.ring import Pages
from slipstream.tables.mover import BeforeWrite
from slipstream.tables.plan import Plan, RowSlots
from slipstream.tables.store import RowStore

_AT_ONCE = 1 << 18


class SlotContents:
    """The rows of a slow store that are in an arena; `before_write` is that of `Carrier`."""

    def __init__(self, slow: Sequence[RowStore], arena: Arena, before_write: BeforeWrite) -> None:
        self.slow, self._arena, self._before_write = slow, arena, before_write
        self._pool = Pool("scatter")
        self._row_of = [np.full(len(slots), -1, dtype=np.int64) for slots in arena.records]
        self._stay = [0] * len(arena.records)
        self._bits = [np.empty(0, dtype=np.uint8) for _ in slow]  # for `find`

    def keep(self, number: int, moves: RowSlots) -> None:
        """Copy rows of the slow store into slots before the first step."""
        if moves.numbered is not None:  # they stay in the first slots
            self._stay[number] = len(moves.rows)
        self.put(number, moves)

    def put(self, number: int, moves: RowSlots) -> None:
        """Copy rows of the slow store into slots, now."""
        records, slow = self._arena.records[number], self.slow[number].records
        staged = np.empty((min(_AT_ONCE, len(moves.rows)), slow.shape[1]), dtype=np.int32)
        for begin in range(0, len(moves.rows), _AT_ONCE):
            some = slice(begin, begin + _AT_ONCE)
            rows, slots = moves.rows[some], moves.slots[some]
            self._pool.gather(slow, rows, staged)
            read = torch.from_numpy(staged[: len(rows)])
            if slots[-1] - slots[0] == len(slots) - 1 and np.all(np.diff(slots) == 1):
                records[slots[0] : slots[-1] + 1].copy_(read)
            else:
                records[torch.from_numpy(slots).long().to(records.device)] = read.to(records.device)
        self._row_of[number][moves.slots] = moves.rows

    def take(self, number: int, all_rows: Array, slots: Array) -> None:
        """Copy rows in slots to the slow store, now."""
        records = self._arena.records[number]
        for begin in range(0, len(slots), _AT_ONCE):
            some = torch.from_numpy(slots[begin : begin + _AT_ONCE]).long().to(records.device)
            self.write(number, all_rows[begin : begin + _AT_ONCE], records[some].cpu().numpy())

    def write(self, number: int, rows: Array, records: Array) -> None:
        """Put records that came from the device into the slow store."""
        if len(rows):
            self._before_write(number, rows)
            self._pool.scatter(records, rows, self.slow[number].records)

    def write_run(self, run: PlanRun, pages: Pages) -> None:
        """Put rows that left with plans that were made together into the slow store."""
        for number, many in enumerate(run.many or ()):
            evicts = run.bounds(many.evicts)
            if evicts[-1] > evicts[0]:
                self._before_write(number, many.evict_rows[evicts[0] : evicts[-1]])
                offset = pages.ring.sections.starts[f"{number}.left"] // 4
                words, out = pages.words[run.pages], self.slow[number].records
                self._pool.scatter_pages(words, offset, many.evict_rows, evicts, out)

    def note(self, run: PlanRun, first: Plan) -> None:
        """Steps are done: note which rows came and left; `first` is the first plan of the run."""
        for number, row_of in enumerate(self._row_of):
            if run.many is None:
                fill, evict = tiers_of(first.groups[number])
                note(row_of, fill.rows, fill.slots, evict.slots)
                continue
            many = run.many[number]
            fills, evicts = run.bounds(many.fills), run.bounds(many.evicts)
            note_pages(row_of, many.fill_rows, many.fill_slots, fills, many.evict_slots, evicts)

    def flush(self, *, resident: bool = True) -> None:
        """Write every row on the device back; without `resident`, as in `Carrier.flush`."""
        for number, row_of in enumerate(self._row_of):
            first = 0 if resident else self._stay[number]
            slots = first + np.flatnonzero(row_of[first:] >= 0)
            self.take(number, row_of[slots], slots)

    def flush_some(self, rows: Sequence[Array], *, resident: bool = True) -> None:
        """Write back those of some rows of each group, perhaps repeated, that are on the device."""
        for number, (row_of, some) in enumerate(zip(self._row_of, rows, strict=True)):
            if not len(self._bits[number]):
                self._bits[number] = np.zeros(len(self.slow[number].records) // 8 + 1, np.uint8)
            slots = np.empty(len(some), dtype=np.int64)
            first = 0 if resident else self._stay[number]
            count = find(row_of, first, some, self._bits[number], slots)
            self.take(number, row_of[slots[:count]], slots[:count])

    def lend(self, plan: Plan) -> None:
        """Copy the rows to the host that an oversized step needs."""
        for number, group in enumerate(plan.groups):
            if group.borrowed is not None:
                self.take(number, group.borrowed.rows, group.borrowed.slots)

    def take_back(self, plan: Plan) -> None:
        """After an oversized step: return borrowed rows to their slots, remove rows that leave."""
        for number, group in enumerate(plan.groups):
            if group.borrowed is not None:
                self.put(number, group.borrowed)
            if group.evict is not None:
                self.take(number, group.evict.rows, group.evict.slots)
                self._row_of[number][group.evict.slots] = -1

    def copy_in(self, rows: Sequence[Array], arena: Arena) -> None:
        """Copy rows of the slow store to the first slots of another arena."""
        for slow, some, records in zip(self.slow, rows, arena.records, strict=True):
            records.copy_(torch.from_numpy(slow.records[some]))

    def copy_out(self, rows: Sequence[Array], arena: Arena) -> None:
        """Copy the slots of another arena back to the slow store."""
        for number, (some, records) in enumerate(zip(rows, arena.records, strict=True)):
            self.write(number, some, records.cpu().numpy())

    def close(self) -> None:
        """End its threads, and drop its callback, which would keep it alive."""
        self._pool.close()
        self._before_write = _ended


def _ended(_: int, __: Array) -> None:
    raise SlipstreamError("Rows cannot be written back any more: their transfers are closed.")
