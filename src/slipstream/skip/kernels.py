"""Loops over the embedding rows of many examples: compiled, without the interpreter lock.

The rows of example i are `ids[i, c] + starts[c]` for each single column c, and
`values[offsets[l, i]:offsets[l, i + 1]]` for each list column l. Rows lie far apart in memory, so
the numbers of rows are prefetched some examples ahead.
"""

from __future__ import annotations

import numpy as np

from slipstream.arrays import Array
from slipstream.compiled import compiled
from slipstream.prefetch import prefetch

_AHEAD = 8  # examples


@compiled
def _prefetch(i: int, ids: Array, starts: Array, of_rows: Array) -> None:
    """Prefetch the numbers of the rows of single columns, of an example behind example i."""
    if i + _AHEAD < len(ids):
        for c in range(len(starts)):
            prefetch(of_rows, starts[c] + ids[i + _AHEAD, c], 0)


@compiled
def _buffers(starts: Array, offsets: Array, examples: int) -> tuple[Array, Array]:
    """Two buffers as long as the example with most rows."""
    longest = len(starts)
    for i in range(examples):
        here = len(starts)
        for column in range(len(offsets)):
            here += offsets[column, i + 1] - offsets[column, i]
        longest = max(longest, here)
    return np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)


@compiled
def _rows_of(
    i: int,
    ids: Array,
    starts: Array,
    values: Array,
    offsets: Array,
    rows: Array,
    columns: Array,
) -> int:
    """Write the rows of example i, and the column of each; returns how many there are."""
    for c in range(len(starts)):
        rows[c], columns[c] = starts[c] + ids[i, c], c
    n = len(starts)
    for column in range(len(offsets)):
        for k in range(offsets[column, i], offsets[column, i + 1]):
            rows[n], columns[n] = values[k], len(starts) + column
            n += 1
    return n


@compiled
def sums(
    ids: Array, starts: Array, values: Array, offsets: Array, of_rows: Array, out: Array
) -> None:
    """Write for each example the sum of the numbers of its rows."""
    rows, columns = _buffers(starts, offsets, len(out))
    ahead = of_rows.reshape(-1, 1)
    for i in range(len(out)):
        _prefetch(i, ids, starts, ahead)
        total = 0.0
        for k in range(_rows_of(i, ids, starts, values, offsets, rows, columns)):
            total += of_rows[rows[k]]
        out[i] = total


@compiled
def largest(
    ids: Array,
    starts: Array,
    values: Array,
    offsets: Array,
    of_rows: Array,
    out: Array,
    column_of: Array,
) -> None:
    """Write for each example the largest number of its rows, and the column of that row."""
    rows, columns = _buffers(starts, offsets, len(out))
    ahead = of_rows.reshape(-1, 1)
    for i in range(len(out)):
        _prefetch(i, ids, starts, ahead)
        most, column = np.float32(-np.inf), -1
        for k in range(_rows_of(i, ids, starts, values, offsets, rows, columns)):
            if of_rows[rows[k]] > most:
                most, column = of_rows[rows[k]], columns[k]
        out[i], column_of[i] = most, column


@compiled
def bounds(
    ids: Array,
    starts: Array,
    values: Array,
    offsets: Array,
    tables: Array,
    of_rows: Array,
    in_table: int,
    in_all: int,
    out: Array,
) -> None:
    """Write for each example the bound below which `in_table` rows of `in_all` tables lie."""
    rows, columns = _buffers(starts, offsets, len(out))
    count = 0
    for column in range(len(tables)):
        count = max(count, tables[column] + 1)
    per_table = np.empty(count, dtype=np.float32)
    numbers = np.empty(len(rows), dtype=np.float32)
    for i in range(len(out)):
        n = _rows_of(i, ids, starts, values, offsets, rows, columns)
        accessed = 0
        for table in range(count):
            here = 0
            for k in range(n):
                if tables[columns[k]] == table:
                    numbers[here] = of_rows[rows[k]]
                    here += 1
            if here:
                per_table[accessed] = np.sort(numbers[:here])[min(here, in_table) - 1]
                accessed += 1
        if accessed:
            out[i] = np.sort(per_table[:accessed])[min(accessed, in_all) - 1]


@compiled
def count(ids: Array, starts: Array, values: Array, into: Array) -> None:
    """Add 1 to the count of each row for each access."""
    ahead = into.reshape(-1, 1)
    for i in range(len(ids)):
        _prefetch(i, ids, starts, ahead)
        for c in range(len(starts)):
            into[starts[c] + ids[i, c]] += 1
    for k in range(len(values)):
        into[values[k]] += 1


@compiled
def count_labels(
    ids: Array, starts: Array, values: Array, offsets: Array, labels: Array, into: Array
) -> None:
    """Count the accesses of each row, and those by examples with label 1.

    Both counts of a row are one number with the second in its upper half, so one addition counts.
    """
    rows, columns = _buffers(starts, offsets, len(ids))
    ahead = into.reshape(-1, 1)
    for i in range(len(ids)):
        _prefetch(i, ids, starts, ahead)
        access = np.uint64(1) + (np.uint64(labels[i] > 0) << np.uint64(32))
        for k in range(_rows_of(i, ids, starts, values, offsets, rows, columns)):
            into[rows[k]] += access


@compiled
def odds_without_own(
    ids: Array,
    starts: Array,
    values: Array,
    offsets: Array,
    labels: Array,
    clicks: Array,
    common: float,
    smoothing: float,
    out: Array,
) -> None:
    """Write for each example the sum of its rows' log-odds, its own accesses not counted.

    Args:
        ids: The ids of single columns.
        starts: The first rows of their tables.
        values: The rows of list columns.
        offsets: Where lists begin.
        labels: The labels of the examples.
        clicks: Accesses of each row, and those with label 1, with these examples counted once each.
        common: The share of accesses with label 1.
        smoothing: Each row has so many accesses of the common rate added.
        out: The sums.
    """
    rows, columns = _buffers(starts, offsets, len(out))
    base = np.log(common / (1 - common))
    for i in range(len(out)):
        n = _rows_of(i, ids, starts, values, offsets, rows, columns)
        in_order = np.sort(rows[:n])
        positive = 1 if labels[i] > 0 else 0
        total, first = 0.0, 0
        while first < n:  # a row that an example accesses several times was counted as often
            last = first + 1
            while last < n and in_order[last] == in_order[first]:
                last += 1
            times = last - first
            seen = clicks[in_order[first], 0] - times + smoothing
            rate = (clicks[in_order[first], 1] - times * positive + smoothing * common) / seen
            total += times * (np.log(rate / (1 - rate)) - base)
            first = last
        out[i] = total
