"""What is done row by row for many inputs: compiled, without the interpreter lock.

The rows of input i are `ids[i, c] + starts[c]` for each single column c, and for each list column l
`values[offsets[l, i]:offsets[l, i + 1]]`. Numbers of rows lie far apart: those of inputs some way
ahead are asked for before they are needed.
"""

from __future__ import annotations

import numpy as np

from slipstream.compiled import compiled
from slipstream.data.inputs import Array
from slipstream.prefetch import prefetch

_INPUTS_AHEAD = 8


@compiled
def _ask_ahead(i: int, ids: Array, starts: Array, of_rows: Array) -> None:
    """Ask for the numbers of the rows of single columns, of an input behind input i."""
    if i + _INPUTS_AHEAD < len(ids):
        for c in range(len(starts)):
            prefetch(of_rows, starts[c] + ids[i + _INPUTS_AHEAD, c], 0)


@compiled
def sums(
    ids: Array, starts: Array, values: Array, offsets: Array, of_rows: Array, out: Array
) -> None:
    """Add to `out` the numbers of each input's rows."""
    asked = of_rows.reshape(-1, 1)
    for i in range(len(out)):
        _ask_ahead(i, ids, starts, asked)
        total = 0.0
        for c in range(len(starts)):
            total += of_rows[starts[c] + ids[i, c]]
        for column in range(len(offsets)):
            for k in range(offsets[column, i], offsets[column, i + 1]):
                total += of_rows[values[k]]
        out[i] = total


@compiled
def largest(
    ids: Array, starts: Array, values: Array, offsets: Array, of_rows: Array, out: Array
) -> None:
    """Raise each number of `out` to the largest of the input's rows."""
    asked = of_rows.reshape(-1, 1)
    for i in range(len(out)):
        _ask_ahead(i, ids, starts, asked)
        most = out[i]
        for c in range(len(starts)):
            most = max(most, of_rows[starts[c] + ids[i, c]])
        for column in range(len(offsets)):
            for k in range(offsets[column, i], offsets[column, i + 1]):
                most = max(most, of_rows[values[k]])
        out[i] = most


@compiled
def foremost(
    ids: Array,
    starts: Array,
    values: Array,
    offsets: Array,
    tables: Array,
    of_rows: Array,
    out: Array,
) -> None:
    """Write for each input the table of its row with the largest number."""
    for i in range(len(out)):
        most = -np.inf
        for c in range(len(starts)):
            if of_rows[starts[c] + ids[i, c]] > most:
                most = of_rows[starts[c] + ids[i, c]]
                out[i] = tables[c]
        for column in range(len(offsets)):
            for k in range(offsets[column, i], offsets[column, i + 1]):
                if of_rows[values[k]] > most:
                    most = of_rows[values[k]]
                    out[i] = tables[len(starts) + column]


@compiled
def enough(
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
    """Write for each input the bound below which `in_table` rows of `in_all` tables lie."""
    count = 0
    for column in range(len(tables)):
        count = max(count, tables[column] + 1)
    per_table = np.empty(count, dtype=np.float32)
    longest = len(starts)
    for i in range(len(out)):
        here = len(starts)
        for column in range(len(offsets)):
            here += offsets[column, i + 1] - offsets[column, i]
        longest = max(longest, here)
    some = np.empty(longest, dtype=np.float32)
    for i in range(len(out)):
        found = 0
        for table in range(count):
            n = 0
            for c in range(len(starts)):
                if tables[c] == table:
                    some[n] = of_rows[starts[c] + ids[i, c]]
                    n += 1
            for column in range(len(offsets)):
                if tables[len(starts) + column] == table:
                    for k in range(offsets[column, i], offsets[column, i + 1]):
                        some[n] = of_rows[values[k]]
                        n += 1
            if n:
                per_table[found] = np.sort(some[:n])[min(n, in_table) - 1]
                found += 1
        if found:
            out[i] = np.sort(per_table[:found])[min(found, in_all) - 1]


@compiled
def count(ids: Array, starts: Array, values: Array, into: Array) -> None:
    """Count the accesses of each row."""
    asked = into.reshape(-1, 1)
    for i in range(len(ids)):
        _ask_ahead(i, ids, starts, asked)
        for c in range(len(starts)):
            into[starts[c] + ids[i, c]] += 1
    for k in range(len(values)):
        into[values[k]] += 1


@compiled
def left_to_learn(counts: Array, out: Array) -> None:
    """Write for each count what one more teaches."""
    one = np.float32(1)
    for row in range(len(counts)):
        out[row] = one / (np.float32(counts[row]) + one)


@compiled
def count_labels(
    ids: Array, starts: Array, values: Array, offsets: Array, labels: Array, into: Array
) -> None:
    """Count the accesses of each row, and those by inputs with label 1.

    Both counts of a row are one number, which has the second in its upper half: one addition.
    """
    asked = into.reshape(-1, 1)
    for i in range(len(ids)):
        _ask_ahead(i, ids, starts, asked)
        one = np.uint64(1) + (np.uint64(labels[i] > 0) << np.uint64(32))
        for c in range(len(starts)):
            into[starts[c] + ids[i, c]] += one
        for column in range(len(offsets)):
            for k in range(offsets[column, i], offsets[column, i + 1]):
                into[values[k]] += one


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
    """Write for each input the sum of its rows' log-odds, its own accesses not counted.

    Args:
        ids: Of the single columns.
        starts: Their tables' first rows.
        values: Of the list columns.
        offsets: Where lists begin.
        labels: Of the inputs.
        clicks: Accesses of each row, and those with label 1, with these inputs counted once each.
        common: The share of accesses with label 1.
        smoothing: Each row has so many accesses of the common rate added.
        out: For each input.
    """
    longest = 0
    for i in range(len(out)):
        here = len(starts)
        for column in range(len(offsets)):
            here += offsets[column, i + 1] - offsets[column, i]
        longest = max(longest, here)
    rows = np.empty(longest, dtype=np.int64)
    base = np.log(common / (1 - common))
    for i in range(len(out)):
        n = 0
        for c in range(len(starts)):
            rows[n] = starts[c] + ids[i, c]
            n += 1
        for column in range(len(offsets)):
            for k in range(offsets[column, i], offsets[column, i + 1]):
                rows[n] = values[k]
                n += 1
        mine = np.sort(rows[:n])
        positive = 1 if labels[i] > 0 else 0
        total, first = 0.0, 0
        while first < n:  # a row that an input accesses several times was counted as often
            last = first + 1
            while last < n and mine[last] == mine[first]:
                last += 1
            times = last - first
            seen = clicks[mine[first], 0] - times + smoothing
            rate = (clicks[mine[first], 1] - times * positive + smoothing * common) / seen
            total += times * (np.log(rate / (1 - rate)) - base)
            first = last
        out[i] = total


@compiled
def changes(now: Array, copy: Array, some: Array, places: Array, renew: bool, moved: Array) -> None:
    """Raise what each row has moved to the largest change of an element.

    Args:
        now: Some rows as they are.
        copy: Rows as they were; those are overwritten if `renew`.
        some: Where each stands in `copy`.
        places: Where each row of the copy stands in `moved`.
        renew: Whether to compare with the rows as they are from here on.
        moved: The largest change of each row so far.
    """
    for k in range(len(now)):
        row = some[k]
        most = moved[places[row]]
        for element in range(now.shape[1]):
            most = max(most, abs(now[k, element] - copy[row, element]))
            if renew:
                copy[row, element] = now[k, element]
        moved[places[row]] = most
