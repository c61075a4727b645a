"""Rows read and moved by compiled code, without the interpreter lock.

Sums run in the order that the plan gives, whatever the number of threads: same bits every time.
A row is first widened into a small buffer, so that one arithmetic serves every storage.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slipstream.data.inputs import Array
from slipstream.embedding.kernels.compiled import compiled
from slipstream.embedding.optimizers import Adam, RowOptimizer

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
def _move(
    kind: int, row: Array, gradient: Array, values: Array, slot: int, at: int, p: Array
) -> None:
    """One row moves by its summed gradient; its state stands in `values` from place `at` on."""
    dim = len(row)
    if kind != ADAM and p[2] != 0:
        for d in range(dim):
            gradient[d] += p[2] * row[d]
    if kind == SGD:
        for d in range(dim):
            row[d] -= p[0] * gradient[d]
    elif kind == ADAGRAD:
        for d in range(dim):
            total = values[slot, at + d] + gradient[d] * gradient[d]
            values[slot, at + d] = total
            row[d] -= p[0] * gradient[d] / (np.sqrt(total) + p[1])
    elif kind == ROWWISE:
        # Four sums side by side: one alone would wait for each addition.
        a = b = c = e = p.dtype.type(0)
        whole = dim - dim % 4
        for d in range(0, whole, 4):
            a += gradient[d] * gradient[d]
            b += gradient[d + 1] * gradient[d + 1]
            c += gradient[d + 2] * gradient[d + 2]
            e += gradient[d + 3] * gradient[d + 3]
        for d in range(whole, dim):
            a += gradient[d] * gradient[d]
        total = values[slot, at] + ((a + b) + (c + e)) / p.dtype.type(dim)
        values[slot, at] = total
        rate = p[0] / (np.sqrt(total) + p[1])
        for d in range(dim):
            row[d] -= rate * gradient[d]
    else:
        for d in range(dim):
            mean = values[slot, at + d]
            square = values[slot, at + dim + d]
            mean += (gradient[d] - mean) * p[2]
            square += (gradient[d] * gradient[d] - square) * p[3]
            values[slot, at + d] = mean
            values[slot, at + dim + d] = square
            row[d] -= p[0] * (mean / (np.sqrt(square) + p[1]))


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
    dim = gradient.shape[1]
    summed = np.empty(dim, dtype=values.dtype)
    for u in range(first, last):
        slot = rows[u]
        begin, end = starts[u], starts[u + 1]
        source = sources[begin]
        for d in range(dim):
            summed[d] = gradient[source, d]
        for k in range(begin + 1, end):
            source = sources[k]
            for d in range(dim):
                summed[d] += gradient[source, d]
        _move(kind, values[slot, :dim], summed, values, slot, at, p)


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
    summed = np.empty(dim, dtype=np.float32)
    bits = np.empty(dim, dtype=np.uint32)
    row = bits.view(np.float32)
    for u in range(first, last):
        slot = rows[u]
        begin, end = starts[u], starts[u + 1]
        source = sources[begin]
        for d in range(dim):
            summed[d] = gradient[source, d]
        for k in range(begin + 1, end):
            source = sources[k]
            for d in range(dim):
                summed[d] += gradient[source, d]
        if low:
            for d in range(dim):
                bits[d] = (np.uint32(halves[slot, d]) << np.uint32(16)) | halves[slot, low + d]
        else:
            for d in range(dim):
                bits[d] = np.uint32(halves[slot, d]) << np.uint32(16)
        _move(kind, row, summed, values, slot, at, p)
        if low:
            for d in range(dim):
                halves[slot, d] = bits[d] >> np.uint32(16)
                halves[slot, low + d] = bits[d] & np.uint32(0xFFFF)
        else:
            for d in range(dim):
                word = bits[d]
                if word & np.uint32(0x7FFFFFFF) > np.uint32(0x7F800000):  # no number: keep it so
                    halves[slot, d] = np.uint16(0x7FC0)
                else:
                    odd = (word >> np.uint32(16)) & np.uint32(1)
                    halves[slot, d] = (word + np.uint32(0x7FFF) + odd) >> np.uint32(16)
