"""All rows in one place: a slot is the number of the row in its group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from slipstream.arrays import Array
from slipstream.data.batch import ListBatch
from slipstream.errors import DataError
from slipstream.tables.kernels import planning
from slipstream.tables.kernels.threads import shared, shares_for
from slipstream.tables.plan import (
    Batches,
    GradientIndex,
    GroupPlan,
    ListSlots,
    Placed,
    RowFilter,
    RowSlots,
    filter_rows,
)
from slipstream.tables.pooling import POOLINGS
from slipstream.tables.spec import Group, Layout

_WORK = 4  # a lookup is about as much work as so many elements are to copy
_NONE = (np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0, np.int64))


class NoCache:
    """Finds the rows of a batch in the slow store, where all of them are."""

    def __init__(self, layout: Layout, singles: Sequence[str]) -> None:
        self._groups = [_GroupPlanner(layout, group, singles) for group in layout.groups]

    remembers = False
    on_read = None

    def resident_rows(self) -> Sequence[RowSlots]:
        """Nothing: there is no fast tier."""
        return ()

    def place(
        self, batches: Batches, step: int, *, update: bool, row_filter: RowFilter | None = None
    ) -> Iterator[Placed]:
        """Where the rows of each batch are, in the slow store."""
        del step  # where a row is does not change
        for batch in batches:
            masks = row_filter(batch) if update and row_filter is not None else None
            groups = self.plan(batch.ids, batch.lists, batch.n_valid, update=update, masks=masks)
            yield Placed(batch, groups)

    def plan(
        self,
        ids: Tensor,
        lists: Mapping[str, ListBatch],
        n_valid: int,
        *,
        update: bool = True,
        masks: Sequence[Tensor | None] | None = None,
    ) -> tuple[GroupPlan, ...]:
        """Where the rows of a batch are; `masks` as for `filter_rows`."""
        groups = tuple(g.plan(ids.numpy(), lists, n_valid, update) for g in self._groups)
        return filter_rows(groups, masks)


class _GroupPlanner:
    """The rows of one group."""

    def __init__(self, layout: Layout, group: Group, singles: Sequence[str]) -> None:
        self.group = group
        features = [(number, layout.features[number]) for number in group.features]
        sequences = [(number, layout.features[number]) for number in group.sequences]
        self.single = [(n, f) for n, f in features if f.kind == "single"]
        self.listed = [(n, f) for n, f in (*features, *sequences) if f.kind != "single"]
        self.per_value = [
            n for n, f in features if f.kind != "single" and not POOLINGS[f.kind].is_sum
        ]
        tables = {table.name: table for table in group.tables}
        self.columns = np.array([singles.index(f.column) for _, f in self.single], dtype=np.int64)
        self.starts = np.array([group.start(f.table) for _, f in self.single], dtype=np.int64)
        self.rows = np.array([tables[f.table].rows for _, f in self.single], dtype=np.int64)
        self.width = len(features)
        used = [f.table for _, f in features]
        self.plain = not self.listed and len(set(used)) == len(used)
        self._tables = [
            [(n, f) for n, f in (*features, *sequences) if f.table == table.name]
            for table in group.tables
        ]
        self._layout = layout
        self._room: dict[str, Array] = {}

    def plan(self, ids: Array, lists: Mapping[str, ListBatch], n: int, update: bool) -> GroupPlan:
        capacity = len(ids)
        slots = np.empty((len(self.single), capacity), dtype=np.int64)
        bad = planning.single_slots(ids, self.columns, self.starts, self.rows, n, slots)
        if bad != planning.GOOD:
            row, place = divmod(bad, len(self.single))
            name = self.single[place][1].column
            raise _out_of_range(name, ids[row, self.columns[place]], row, self.rows[place])
        listed = {n: self._list(n, lists[f.column]) for n, f in self.listed}
        touched = self._touched(slots, listed, n) if update else None
        return GroupPlan(torch.from_numpy(slots), listed, touched)

    def _list(self, number: int, column: ListBatch) -> ListSlots:
        feature = self._layout.features[number]
        ids, offsets = column.values.numpy(), column.offsets.numpy()
        start, rows = self.group.start(feature.table), self._layout.table(feature.table).rows
        slots = np.empty(len(ids), dtype=np.int64)
        list_starts = np.empty(len(offsets), dtype=np.int64)
        bad = planning.list_slots(ids, offsets, start, rows, feature.length, slots, list_starts)
        if bad != planning.GOOD:
            row = int(np.searchsorted(offsets, bad, side="right")) - 1
            raise _out_of_range(feature.column, ids[bad], row, rows)
        return ListSlots(torch.from_numpy(slots[: list_starts[-1]]), torch.from_numpy(list_starts))

    def _touched(self, slots: Array, lists: dict[int, ListSlots], n: int) -> GradientIndex:
        if self.plain:
            entries = slots.reshape(-1)
            sources, bounds = self._sources(slots.shape[1])
        else:
            entries, sources, bounds = self._entries(slots, lists, n)
        return self._distinct(entries, sources, bounds)

    def _distinct(self, entries: Array, sources: Array, bounds: Array) -> GradientIndex:
        """The distinct rows of the lookups, table by table; tables are shared out to threads."""
        count = len(bounds) - 1
        shares = shares_for(len(entries) * _WORK, count)
        cuts = np.searchsorted(bounds, [len(entries) * k // shares for k in range(shares)])
        cuts = np.minimum(np.append(cuts, count), count)
        pieces: list[tuple[Array, Array, Array]] = [_NONE] * shares

        def some(first: int, last: int) -> None:
            for share in range(first, last):
                begin, end = int(cuts[share]), int(cuts[share + 1])
                pieces[share] = self._share(entries, sources, bounds[begin : end + 1], share)

        shared(some, range(shares + 1))
        rows, starts, out = (
            arrays[0] if shares == 1 else np.concatenate(arrays)
            for arrays in zip(*self._in_a_row(pieces), strict=True)
        )
        return GradientIndex(*(torch.from_numpy(array) for array in (rows, starts, out)))

    def _share(
        self, entries: Array, sources: Array, bounds: Array, share: int
    ) -> tuple[Array, Array, Array]:
        """The distinct rows of some tables, where each one's sources begin, and the sources."""
        begin, end = int(bounds[0]), int(bounds[-1])
        n = end - begin
        longest = int(np.diff(bounds).max(initial=0))
        size = 1 << max(4, (2 * longest - 1).bit_length())
        table = self._scratch(f"table {share}", size)
        counts, numbers = (self._scratch(f"{name} {share}", n) for name in ("counts", "numbers"))
        rows = np.empty(n, dtype=np.int64)
        count = planning.distinct(entries[begin:end], bounds - begin, table, rows, counts, numbers)
        starts, out = np.empty(count + 1, dtype=np.int64), np.empty(n, dtype=np.int64)
        planning.by_row(numbers, sources[begin:end], counts[:count], starts, out)
        return rows[:count], starts, out[: starts[-1]]

    @staticmethod
    def _in_a_row(
        shares: list[tuple[Array, Array, Array]],
    ) -> Iterator[tuple[Array, Array, Array]]:
        """The shares so that laid end to end they are one: starts count on."""
        end = 0
        for number, (rows, starts, out) in enumerate(shares):
            yield rows, (starts if number == 0 else starts[1:]) + end, out
            end += len(out)

    def _sources(self, capacity: int) -> tuple[Array, Array]:
        """Of single columns with a table each: the same for every batch."""
        if "sources" not in self._room or len(self._room["sources"]) != self.width * capacity:
            numbers = np.arange(capacity * self.width, dtype=np.int64)
            self._room["sources"] = numbers.reshape(capacity, self.width).T.reshape(-1).copy()
            self._room["bounds"] = np.arange(self.width + 1, dtype=np.int64) * capacity
        return self._room["sources"], self._room["bounds"]

    def _entries(
        self, slots: Array, lists: dict[int, ListSlots], n: int
    ) -> tuple[Array, Array, Array]:
        """The lookups of each table in input order, their sources, and where each table begins."""
        capacity = slots.shape[1]
        order = list(lists)
        values = [lists[number].slots.numpy() for number in order]
        ends = np.concatenate([[0], np.cumsum([len(column) for column in values])]).astype(np.int64)
        offsets = [lists[k].offsets.numpy() + ends[at] for at, k in enumerate(order)]
        joined = np.concatenate(values) if values else np.empty(0, dtype=np.int64)
        where = np.stack(offsets) if offsets else np.empty((0, capacity + 1), dtype=np.int64)
        total = len(joined) + slots.shape[0] * n
        entries, sources = (np.empty(total, dtype=np.int64) for _ in range(2))
        bounds, end = [0], 0
        parts = self._parts(order, capacity, ends)
        for table in parts:
            end += planning.entries(table, slots, joined, where, n, entries[end:], sources[end:])
            bounds.append(end)
        return entries[:end], sources[:end], np.array(bounds, dtype=np.int64)

    def _parts(self, order: list[int], capacity: int, ends: Array) -> list[Array]:
        """For each table its features, as `planning.entries` wants them."""
        singles = [n for n, _ in self.single]
        first, end = {}, capacity * self.width
        for n in self.group.sequences:
            first[n] = end
            end += capacity * self._layout.features[n].length
        for n in self.per_value:
            first[n] = end
            end += int(ends[order.index(n) + 1] - ends[order.index(n)])
        tables = []
        for features in self._tables:
            parts = []
            for n, feature in features:
                if feature.kind == "single":
                    place = self.group.features.index(n)
                    parts.append((singles.index(n), -1, place, self.width, 0))
                elif feature.kind == "sequence":
                    parts.append((-1, order.index(n), first[n], feature.length, 1))
                elif n in self.per_value:
                    parts.append((-1, order.index(n), first[n], -1, 1))
                else:
                    place = self.group.features.index(n)
                    parts.append((-1, order.index(n), place, self.width, 0))
            tables.append(np.array(parts, dtype=np.int64).reshape(-1, 5))
        return tables

    def _scratch(self, name: str, size: int) -> Array:
        if name not in self._room or len(self._room[name]) < size:
            self._room[name] = np.empty(size, dtype=np.int32)
        return self._room[name][:size]


def _out_of_range(column: str, value: int, row: int, rows: int) -> DataError:
    return DataError(
        f"Column {column!r} has the id {value} in example {row} of the batch, but its table has "
        f"{rows} rows: ids are 0 to {rows - 1}. Check the data set with `slipstream data verify`."
    )
