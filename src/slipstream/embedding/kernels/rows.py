"""Rows read and moved by compiled code, without the interpreter lock.

Sums run in the order that the plan gives, whatever the number of threads: same bits every time.
A row is first widened into a small buffer, so that one arithmetic serves every storage.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slipstream.compiled import compiled
from slipstream.data.inputs import Array
from slipstream.embedding.optimizers import Adam, RowOptimizer

_BLOCK = 64  # rows whose gradients are summed before they move: they fit the nearest cache
SGD, ADAGRAD, ROWWISE, ADAM = 0, 1, 2, 3
NUMBER = {"sgd": SGD, "adagrad": ADAGRAD, "rowwise_adagrad": ROWWISE, "adam": ADAM}


def parameters(optimizer: RowOptimizer, lr: float, step: int, dtype: np.dtype[Any]) -> Array:
    """What the update needs to know of an optimizer, as it is used in the arithmetic."""
    if isinstance(optimizer, Adam):
        values = [optimizer.rate(lr, step), optimizer.eps, 1 - optimizer.beta1, 1 - optimizer.beta2]
        return np.array(values, dtype=dtype)
    return np.array([lr, getattr(optimizer, "eps", 0.0), optimizer.weight_decay, 0], dtype=dtype)


@compiled
def lookup_floats(values: Array, slots: Array, places: Array, out: Array) -> None:
    """Copy rows kept as floats to their place in `out` `[capacity, features, dim]`."""
    dim = out.shape[2]
    for feature in range(len(places)):
        place = places[feature]
        for i in range(slots.shape[1]):
            slot = slots[feature, i]
            if slot < 0:
                for d in range(dim):
                    out[i, place, d] = 0
            else:
                for d in range(dim):
                    out[i, place, d] = values[slot, d]


@compiled
def lookup_halves(halves: Array, slots: Array, places: Array, out: Array) -> None:
    """Copy rows whose upper halves are kept; `out` is the bits of floats."""
    dim = out.shape[2]
    for feature in range(len(places)):
        place = places[feature]
        for i in range(slots.shape[1]):
            slot = slots[feature, i]
            if slot < 0:
                for d in range(dim):
                    out[i, place, d] = 0
            else:
                for d in range(dim):
                    out[i, place, d] = np.uint32(halves[slot, d]) << np.uint32(16)


@compiled
def pool(values: Array, halved: bool, slots: Array, offsets: Array, mean: bool, out: Array) -> None:
    """Sum or average the rows of each list into `out` `[capacity, dim]`.

    `values` are floats, or, where `halved`, the uint16 upper halves of floats.
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
            if halved:
                for d in range(dim):
                    bits[d] = np.uint32(values[slot, d]) << np.uint32(16)
                for d in range(dim):
                    out[i, d] += row[d]
            else:
                for d in range(dim):
                    out[i, d] += values[slot, d]
        if mean and last - first > 1:
            for d in range(dim):
                out[i, d] /= last - first


@compiled
def _sum(
    rows: int, starts: Array, sources: Array, gradient: Array, first: int, summed: Array
) -> None:
    """Sum the parts of the gradients of `rows` touched rows from `first` on, in their order."""
    dim = gradient.shape[1]
    for j in range(rows):
        begin, end = starts[first + j], starts[first + j + 1]
        source = sources[begin]
        for d in range(dim):
            summed[j, d] = gradient[source, d]
        for k in range(begin + 1, end):
            source = sources[k]
            for d in range(dim):
                summed[j, d] += gradient[source, d]


@compiled
def _move(
    kind: int,
    at: int,
    p: Array,
    row: Array,
    row_at: Array,
    g: Array,
    state: Array,
    state_at: Array,
) -> None:
    """Move rows by their summed gradients, a block at a time: a call a row costs more than the row.

    Args:
        kind: Which optimizer.
        at: Where in a row of `state` the state begins.
        p: What the optimizer needs to know.
        row: The rows.
        row_at: Which of them.
        g: Their gradients; used up.
        state: Where their state is.
        state_at: Which rows of it.
    """
    n, dim = len(state_at), g.shape[1]
    if kind != ADAM and p[2] != 0:
        for j in range(n):
            r = row_at[j]
            for d in range(dim):
                g[j, d] += p[2] * row[r, d]
    if kind == SGD:
        for j in range(n):
            r = row_at[j]
            for d in range(dim):
                row[r, d] -= p[0] * g[j, d]
    elif kind == ADAGRAD:
        for j in range(n):
            r, s = row_at[j], state_at[j]
            for d in range(dim):
                total = state[s, at + d] + g[j, d] * g[j, d]
                state[s, at + d] = total
                g[j, d] = p[0] * g[j, d] / (np.sqrt(total) + p[1])
            for d in range(dim):
                row[r, d] -= g[j, d]
    elif kind == ROWWISE:
        for j in range(n):
            r, s = row_at[j], state_at[j]
            # Four sums side by side: one alone would wait for each addition.
            a = b = c = e = p.dtype.type(0)
            whole = dim - dim % 4
            for d in range(0, whole, 4):
                a += g[j, d] * g[j, d]
                b += g[j, d + 1] * g[j, d + 1]
                c += g[j, d + 2] * g[j, d + 2]
                e += g[j, d + 3] * g[j, d + 3]
            for d in range(whole, dim):
                a += g[j, d] * g[j, d]
            total = state[s, at] + ((a + b) + (c + e)) / p.dtype.type(dim)
            state[s, at] = total
            rate = p[0] / (np.sqrt(total) + p[1])
            for d in range(dim):
                row[r, d] -= rate * g[j, d]
    else:
        for j in range(n):
            r, s = row_at[j], state_at[j]
            for d in range(dim):
                square = state[s, at + dim + d]
                square += (g[j, d] * g[j, d] - square) * p[3]
                state[s, at + dim + d] = square
                mean = state[s, at + d]
                mean += (g[j, d] - mean) * p[2]
                state[s, at + d] = mean
                g[j, d] = p[0] * (mean / (np.sqrt(square) + p[1]))
            for d in range(dim):
                row[r, d] -= g[j, d]


@compiled
def update_floats(
    values: Array,
    rows: Array,
    starts: Array,
    sources: Array,
    gradient: Array,
    kind: int,
    at: int,
    p: Array,
    first: int,
    last: int,
) -> None:
    """Move the rows numbered first to last of the touched ones, kept as floats."""
    summed = np.empty((_BLOCK, gradient.shape[1]), dtype=values.dtype)
    for begin in range(first, last, _BLOCK):
        n = min(_BLOCK, last - begin)
        _sum(n, starts, sources, gradient, begin, summed)
        some = rows[begin : begin + n]
        _move(kind, at, p, values, some, summed, values, some)


@compiled
def update_halves(
    halves: Array,
    low: int,
    values: Array,
    rows: Array,
    starts: Array,
    sources: Array,
    gradient: Array,
    kind: int,
    at: int,
    p: Array,
    first: int,
    last: int,
) -> None:
    """Move rows kept as upper halves, rounded; with their lower halves from `low` on, if not 0."""
    dim = gradient.shape[1]
    summed = np.empty((_BLOCK, dim), dtype=np.float32)
    bits = np.empty((_BLOCK, dim), dtype=np.uint32)
    wide = bits.view(np.float32)
    every = np.arange(_BLOCK)
    for begin in range(first, last, _BLOCK):
        n = min(_BLOCK, last - begin)
        _sum(n, starts, sources, gradient, begin, summed)
        for j in range(n):
            slot = rows[begin + j]
            for d in range(dim):
                bits[j, d] = np.uint32(halves[slot, d]) << np.uint32(16)
            if low:
                for d in range(dim):
                    bits[j, d] |= halves[slot, low + d]
        _move(kind, at, p, wide, every, summed, values, rows[begin : begin + n])
        for j in range(n):
            slot = rows[begin + j]
            if low:
                for d in range(dim):
                    halves[slot, d] = bits[j, d] >> np.uint32(16)
                    halves[slot, low + d] = bits[j, d] & np.uint32(0xFFFF)
                continue
            for d in range(dim):
                word = bits[j, d]
                odd = (word >> np.uint32(16)) & np.uint32(1)
                rounded = (word + np.uint32(0x7FFF) + odd) >> np.uint32(16)
                no_number = word & np.uint32(0x7FFFFFFF) > np.uint32(0x7F800000)
                halves[slot, d] = np.uint32(0x7FC0) if no_number else rounded
