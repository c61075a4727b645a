"""Rows read and updated by compiled code, without the interpreter lock.

Sums run in the order that the plan gives, whatever the number of threads: same bits every time.
A row is first widened into a small buffer, so that one arithmetic serves every storage.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slipstream.arrays import Array
from slipstream.compiled import compiled

Shift = np.uint32 | None
HALF = np.uint32(16)
BLOCK = 1 << 12  # elements of rows that are updated at a time: they fit the nearest cache


@compiled
def lookup(values: Array, shift: Shift, slots: Array, places: Array, out: Array) -> None:
    """Copy rows to their place in `out` `[capacity, features, dim]`; a slot below 0 gives zeros.

    `values` are floats and `shift` is None; or they are the upper halves of floats, `shift` is 16
    and `out` the bits of floats. Slots are `[feature, input]`; `places` is where features go.
    """
    dim = out.shape[2]
    for feature in range(len(places)):
        place = places[feature]
        for i in range(slots.shape[1]):
            slot = slots[feature, i]
            if slot < 0:
                for d in range(dim):
                    out[i, place, d] = 0
            elif shift is None:
                for d in range(dim):
                    out[i, place, d] = values[slot, d]
            else:
                for d in range(dim):
                    out[i, place, d] = np.uint32(values[slot, d]) << shift


@compiled
def pool(
    values: Array, shift: Shift, slots: Array, offsets: Array, divisors: Array, out: Array
) -> None:
    """Write the sum of the rows of each list, divided if there are divisors, to `[lists, dim]`.

    `values` and `shift` are as in `lookup`; list i has the slots `offsets[i]` to `offsets[i + 1]`.
    """
    dim = out.shape[1]
    bits = np.empty(dim, dtype=np.uint32)
    row = bits.view(np.float32)
    for i in range(len(offsets) - 1):
        first, last = offsets[i], offsets[i + 1]
        for d in range(dim):
            out[i, d] = 0
        for k in range(first, last):
            slot = slots[k]
            if shift is None:
                for d in range(dim):
                    out[i, d] += values[slot, d]
            else:
                for d in range(dim):
                    bits[d] = np.uint32(values[slot, d]) << shift
                for d in range(dim):
                    out[i, d] += row[d]
        if len(divisors) and last > first:
            for d in range(dim):
                out[i, d] /= divisors[i]


@compiled
def _sum(starts: Array, sources: Array, gradient: Array, first: int, summed: Array) -> None:
    """Sum the parts of the gradients of the rows from `first` on, in their order."""
    dim = gradient.shape[1]
    for j in range(len(summed)):
        begin, end = starts[first + j], starts[first + j + 1]
        source = sources[begin]
        for d in range(dim):
            summed[j, d] = gradient[source, d]
        for k in range(begin + 1, end):
            source = sources[k]
            for d in range(dim):
                summed[j, d] += gradient[source, d]


class RowUpdate(NamedTuple):
    """What the compiled update of a row optimizer works on."""

    rows: Array  # the rows with a gradient
    starts: Array  # where the sources of each begin, and the end of the last
    sources: Array  # the numbers of the gradient vectors that are summed for a row
    gradient: Array  # the gradient vectors
    values: Array  # the rows as floats, and their optimizer state
    halves: Array  # the rows as 16-bit halves, where they are kept as such
    halved: bool  # whether they are
    low: int  # where in a row of `halves` the lower halves begin; 0 rounds to the upper ones
    slots: Array  # the column of `values` at which each state slot begins
    options: Array  # what the optimizer's `kernel_options` returns
    weight_decay: float  # the optimizer's, 0 without
    block: int  # how many rows to update at a time


@compiled
def load_block(work: RowUpdate, first: int, last: int) -> tuple[Array, Array, Array, Array, Array]:
    """Up to `work.block` rows from the first on, ready to be updated.

    Returns:
        An array of float rows and the indices of the block's rows in it; the gradient of each
        row, which may be overwritten; and an array with the optimizer state and the indices of the
        block's rows in it.
    """
    count, dim = min(work.block, last - first), work.gradient.shape[1]
    state_at = work.rows[first : first + count]
    summed = np.empty((count, dim), dtype=work.values.dtype)
    _sum(work.starts, work.sources, work.gradient, first, summed)
    rows, row_at = work.values, state_at
    if work.halved:
        bits = np.empty((count, dim), dtype=np.uint32)
        _widen(work.halves, work.low, state_at, bits)
        rows, row_at = bits.view(work.values.dtype), np.arange(count)
    if work.weight_decay != 0:
        for j in range(count):
            row = row_at[j]
            for d in range(dim):
                summed[j, d] += work.weight_decay * rows[row, d]
    return rows, row_at, summed, work.values, state_at


@compiled
def store_block(work: RowUpdate, first: int, rows: Array) -> None:
    """Keep the updated rows of a block; `rows` is the first array that `load_block` returned."""
    if work.halved:
        some = work.rows[first : first + len(rows)]
        _narrow(rows.view(np.uint32), some, work.halves, work.low)


@compiled
def _widen(halves: Array, low: int, rows: Array, bits: Array) -> None:
    """Write the bits of float32 rows that are kept as halves."""
    for j in range(len(rows)):
        for d in range(bits.shape[1]):
            bits[j, d] = np.uint32(halves[rows[j], d]) << HALF
        if low:
            for d in range(bits.shape[1]):
                bits[j, d] |= halves[rows[j], low + d]


@compiled
def _narrow(bits: Array, rows: Array, halves: Array, low: int) -> None:
    """Keep float32 rows as halves, exactly, or where there are no lower halves rounded."""
    for j in range(len(rows)):
        row = rows[j]
        if low:
            for d in range(bits.shape[1]):
                halves[row, d] = bits[j, d] >> HALF
                halves[row, low + d] = bits[j, d] & np.uint32(0xFFFF)
            continue
        for d in range(bits.shape[1]):
            word = bits[j, d]
            odd = (word >> HALF) & np.uint32(1)
            rounded = (word + np.uint32(0x7FFF) + odd) >> HALF
            no_number = word & np.uint32(0x7FFFFFFF) > np.uint32(0x7F800000)
            halves[row, d] = np.uint32(0x7FC0) if no_number else rounded
