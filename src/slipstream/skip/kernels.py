"""Compiled loops over the embedding rows of many examples; they release the interpreter lock.

The rows of example i are `rows[offsets[i]:offsets[i + 1]]`. They lie far apart in memory, so their
numbers are prefetched.
"""

from __future__ import annotations

import numpy as np

from slipstream.arrays import Array
from slipstream.compiled import compiled
from slipstream.prefetch import AHEAD, prefetch


@compiled
def sums(rows: Array, offsets: Array, of_rows: Array, out: Array) -> None:
    """Write for each example the sum of the numbers of its rows."""
    columns = of_rows.reshape(-1, 1)
    for i in range(len(out)):
        total = 0.0
        for k in range(offsets[i], offsets[i + 1]):
            if k + AHEAD < len(rows):
                prefetch(columns, rows[k + AHEAD], 0)
            total += of_rows[rows[k]]
        out[i] = total


@compiled
def largest(rows: Array, offsets: Array, of_rows: Array, out: Array) -> None:
    """Write for each example the largest number of its rows."""
    columns = of_rows.reshape(-1, 1)
    for i in range(len(out)):
        most = np.float32(-np.inf)
        for k in range(offsets[i], offsets[i + 1]):
            if k + AHEAD < len(rows):
                prefetch(columns, rows[k + AHEAD], 0)
            most = max(most, of_rows[rows[k]])
        out[i] = most


@compiled
def add(rows: Array, offsets: Array, amounts: Array, to_rows: Array) -> None:
    """Add the amount of each example to each of its rows."""
    columns = to_rows.reshape(-1, 1)
    for i in range(len(amounts)):
        for k in range(offsets[i], offsets[i + 1]):
            if k + AHEAD < len(rows):
                prefetch(columns, rows[k + AHEAD], 0)
            to_rows[rows[k]] += amounts[i]


@compiled
def bounds(
    rows: Array,
    offsets: Array,
    tables: Array,
    of_rows: Array,
    in_table: int,
    in_all: int,
    out: Array,
) -> None:
    """Write for each example the bound below which `in_table` rows of `in_all` tables lie."""
    for i in range(len(out)):
        numbers = of_rows[rows[offsets[i] : offsets[i + 1]]]
        table_of = tables[offsets[i] : offsets[i + 1]]
        per_table = np.empty(len(numbers), dtype=of_rows.dtype)
        tables_seen = 0
        while len(numbers):
            same = table_of == table_of[0]
            of_table = np.sort(numbers[same])
            per_table[tables_seen] = of_table[min(len(of_table), in_table) - 1]
            tables_seen += 1
            numbers, table_of = numbers[~same], table_of[~same]
        if tables_seen:
            out[i] = np.sort(per_table[:tables_seen])[min(tables_seen, in_all) - 1]


@compiled
def odds_without_own(
    rows: Array,
    offsets: Array,
    labels: Array,
    clicks: Array,
    common: float,
    smoothing: float,
    out: Array,
) -> None:
    """Write for each example the sum of its rows' log-odds, its own accesses not counted.

    `clicks` has the accesses of each row, and those with label 1, with each example counted once.
    """
    base = np.log(common / (1 - common))
    for i in range(len(out)):
        in_order = np.sort(rows[offsets[i] : offsets[i + 1]])
        positive = 1 if labels[i] > 0 else 0
        total, first = 0.0, 0
        while first < len(in_order):  # a row that is accessed several times was counted as often
            last = first + 1
            while last < len(in_order) and in_order[last] == in_order[first]:
                last += 1
            times = last - first
            seen = clicks[in_order[first], 0] - times + smoothing
            rate = (clicks[in_order[first], 1] - times * positive + smoothing * common) / seen
            total += times * (np.log(rate / (1 - rate)) - base)
            first = last
        out[i] = total
