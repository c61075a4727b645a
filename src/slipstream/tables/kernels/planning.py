"""Ids to slots, and slots to the distinct rows of a batch: compiled, without the interpreter lock.

A table's rows are found by a hash table of its own, so small that it stays in the nearest cache.
"""

from __future__ import annotations

import numpy as np

from slipstream.arrays import Array
from slipstream.compiled import compiled

GOOD = -1
_MIX = np.uint64(0x9E3779B97F4A7C15)


@compiled
def single_slots(
    ids: Array, columns: Array, starts: Array, rows: Array, n: int, slots: Array
) -> int:
    """Write the slots of single columns, `[feature, input]`.

    Returns the flat place `input * features + feature` of the first id that is out of range, or
    `GOOD`.
    """
    features = len(columns)
    bad = -1
    for feature in range(features):
        column, start, limit = columns[feature], starts[feature], rows[feature]
        wrong = False
        for i in range(n):
            value = np.int64(ids[i, column])
            wrong |= (value < 0) | (value >= limit)
            slots[feature, i] = start + value
        for i in range(n, slots.shape[1]):
            slots[feature, i] = -1
        if wrong:
            for i in range(n):
                value = ids[i, column]
                if value < 0 or value >= limit:
                    place = i * features + feature
                    if bad < 0 or place < bad:
                        bad = place
                    break
    return bad


@compiled
def list_slots(
    ids: Array, offsets: Array, start: int, rows: int, length: int, slots: Array, list_starts: Array
) -> int:
    """Write the slots of a list column's values, the last `length` of each list if that is not 0.

    List i is `ids[offsets[i]:offsets[i + 1]]`; the table has `rows` rows from the slot `start` on.
    `list_starts` receives where each list begins in `slots`. Returns the place in `ids` of the
    first id that is out of range, or `GOOD`.
    """
    end = 0
    list_starts[0] = 0
    for i in range(len(offsets) - 1):
        last = offsets[i + 1]
        keep_from = last - length if length else offsets[i]
        for k in range(offsets[i], last):
            value = np.int64(ids[k])
            if value < 0 or value >= rows:
                return k
            if k >= keep_from:
                slots[end] = start + value
                end += 1
        list_starts[i + 1] = end
    return -1


@compiled
def entries(
    parts: Array, singles: Array, lists: Array, offsets: Array, n: int, slots: Array, sources: Array
) -> int:
    """Write the lookups of one table in input order: slot, and number of the gradient vector.

    Args:
        parts: For each feature of the table: the row of it in `singles` or -1, the row of it in
            `offsets` or -1, the number of its first gradient vector, vectors of an input (-1 where
            each value has one, whatever the input), and vectors of a value (0 where those of an
            input share one).
        singles: The slots of single columns, `[feature, input]`.
        lists: The slots of all lists, one column after the other.
        offsets: For each list column where its lists begin in `lists`.
        n: Inputs that are no padding.
        slots: Out.
        sources: Out.

    Returns:
        How many lookups there are.
    """
    end = 0
    for i in range(n):
        for part in range(len(parts)):
            single, listed, first, stride, step = parts[part]
            source = first + i * stride
            if single >= 0:
                slots[end] = singles[single, i]
                sources[end] = source
                end += 1
                continue
            if stride < 0:
                source = first + offsets[listed, i] - offsets[listed, 0]
            for k in range(offsets[listed, i], offsets[listed, i + 1]):
                slots[end] = lists[k]
                sources[end] = source
                source += step
                end += 1
    return end


@compiled
def distinct(
    slots: Array, bounds: Array, table: Array, rows: Array, counts: Array, numbers: Array
) -> int:
    """Number the distinct slots and count them; returns how many there are.

    Slots below 0 are left out. `bounds` has where the lookups of each table begin and end, as
    tables share no slots; `table` is memory for a hash table, int32: a power of two, at least twice
    the lookups of a table. `rows` and `counts` receive the distinct slots by table and first
    occurrence, `numbers` for each lookup the number of its slot in `rows`, or -1.
    """
    count = 0
    for piece in range(len(bounds) - 1):
        first, last = bounds[piece], bounds[piece + 1]
        size = 16
        while size < 2 * (last - first):
            size *= 2
        mask = np.uint64(size - 1)
        for place in range(size):
            table[place] = -1
        for k in range(first, last):
            slot = slots[k]
            if slot < 0:
                numbers[k] = -1
                continue
            at = ((np.uint64(slot) * _MIX) >> np.uint64(40)) & mask
            number = table[at]
            while number >= 0 and rows[number] != slot:
                at = (at + np.uint64(1)) & mask
                number = table[at]
            if number < 0:
                number = count
                table[at] = number
                rows[number] = slot
                counts[number] = 0
                count += 1
            counts[number] += 1
            numbers[k] = number
    return count


@compiled
def by_row(numbers: Array, sources: Array, counts: Array, starts: Array, out: Array) -> None:
    """Put the sources of each distinct row one after the other, in the order they come.

    `numbers` and `sources` are of each lookup its row, or -1, and its gradient vector; `counts` has
    the lookups of each row and is overwritten. `starts` receives where each row's sources begin.
    """
    end = 0
    for u in range(len(counts)):
        starts[u] = end
        end += counts[u]
        counts[u] = starts[u]
    starts[len(counts)] = end
    for k in range(len(numbers)):
        u = numbers[k]
        if u >= 0:
            out[counts[u]] = sources[k]
            counts[u] += 1
