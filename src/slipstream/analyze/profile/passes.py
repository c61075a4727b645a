"""Passes over the ids of a part: accesses of each row, and examples whose rows are all hot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from slipstream.arrays import Array
from slipstream.data.dataset import Part
from slipstream.data.inputs import Examples
from slipstream.models.inputs import LINEAR
from slipstream.tables.spec import Layout

_AT_ONCE = 1 << 15
Progress = Callable[[int], None]
HotRows = Callable[[], Sequence[Array]]


def no_accesses(part: Part) -> dict[str, Array]:
    """A count for each row of each table, all 0."""
    return {table.name: np.zeros(table.rows, dtype=np.int64) for table in part.schema.tables}


def add_accesses(counts: dict[str, Array], part: Part, start: int, stop: int) -> None:
    """Add the accesses of each row of each table in the examples [start, stop) of a part."""
    for run in _runs(part, start, stop):
        for column, ids, _ in run.ids_by_column(part.schema):
            np.add.at(counts[column.table], ids, 1)


def count_all_hot(
    part: Part,
    layout: Layout,
    hot_sets: Sequence[HotRows],
    on_progress: Progress = lambda _: None,
) -> list[int]:
    """For each of up to 16 hot sets, count the examples of a part whose rows are all in it.

    Args:
        part: The examples.
        layout: The tables that the hot sets are of.
        hot_sets: Functions that return, for each group, whether a row is hot. They are called
            one after the other, so that only one set of masks is in memory.
        on_progress: Called with the number of examples read since the last call.
    """
    assert len(hot_sets) <= 16, "a bit for each hot set"
    bits = {table.name: np.zeros(table.rows, dtype=np.uint16) for table in part.schema.tables}
    for number, hot_rows in enumerate(hot_sets):
        hot = {table.name: np.ones(table.rows, dtype=bool) for table in part.schema.tables}
        for group, mask in zip(layout.groups, hot_rows(), strict=True):
            for first, table in zip(group.starts[:-1], group.tables, strict=True):
                hot[table.name.removesuffix(LINEAR)] &= mask[first : first + table.rows]
        for name, mask in hot.items():
            bits[name] |= mask.astype(np.uint16) << np.uint16(number)
    totals = np.zeros(len(hot_sets), dtype=np.int64)
    for run in _runs(part, 0, len(part)):
        remaining = np.full(len(run), 0xFFFF, dtype=np.uint16)
        for column, ids, lengths in run.ids_by_column(part.schema):
            examples = np.repeat(np.arange(len(run)), lengths)
            np.bitwise_and.at(remaining, examples, bits[column.table][ids])
        for number in range(len(hot_sets)):
            totals[number] += np.count_nonzero(remaining & (1 << number))
        on_progress(len(run))
    return [int(total) for total in totals]


def _runs(part: Part, start: int, stop: int) -> Iterator[Examples]:
    for first in range(start, stop, _AT_ONCE):
        yield from part.runs(first, min(first + _AT_ONCE, stop))
