"""What rows are before they are trained: a pure function of seed, table, row and element."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import torch

from slipstream.arrays import Array
from slipstream.compiled import compiled
from slipstream.tables.kernels.threads import even, shared
from slipstream.tables.spec import TableSpec
from slipstream.tables.store import RowStore, encoded

_AT_ONCE = 1 << 14


def fill(store: RowStore, seed: int) -> None:
    """Give every row of a store its first values; the optimizer's state stays zero.

    Tables of zeros are left alone: a mapped file then stays sparse.
    """
    for number, table in enumerate(store.group.tables):
        if table.init.kind == "zeros":
            continue
        first = store.group.starts[number]

        def rows(start: int, stop: int, table: TableSpec = table, first: int = first) -> None:
            for begin in range(start, stop, _AT_ONCE):
                end = min(begin + _AT_ONCE, stop)
                values = torch.from_numpy(first_values(table, seed, begin, end))
                fields = store.record.split(store.records[first + begin : first + end])
                for name, array in encoded(store.group.storage, values).items():
                    fields[name][:] = array

        shared(rows, even(table.rows, table.rows * table.dim))


def first_values(table: TableSpec, seed: int, start: int, stop: int) -> Array:
    """The first values of rows start to stop of a table.

    Example:
        >>> first_values(TableSpec("ad", rows=4, dim=3), seed=0, start=2, stop=3).shape
        (1, 3)
    """
    scale = 1 / math.sqrt(table.rows) if table.init.scale is None else table.init.scale
    dtype = np.float64 if table.storage == "fp64" else np.float32
    digest = hashlib.sha256(f"{seed}/{table.name}".encode()).digest()
    key = np.uint64(int.from_bytes(digest[:8], "little"))
    values = np.empty((stop - start) * table.dim, dtype=np.float64)
    if table.init.kind == "zeros":
        values[:] = 0
    elif table.init.kind == "uniform":
        _uniform(key, start * table.dim, values)
        values *= 2 * scale
        values -= scale
    else:
        _normal(key, start * table.dim, values)
        values *= scale
    return values.astype(dtype).reshape(-1, table.dim)


@compiled
def _word(key: int, number: int) -> int:
    """A random word for a number (splitmix64)."""
    x = key + np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@compiled
def _uniform(key: int, first: int, out: Array) -> None:
    for k in range(len(out)):
        out[k] = (_word(key, first + k) >> np.uint64(11)) * 2.0**-53


@compiled
def _normal(key: int, first: int, out: Array) -> None:
    for k in range(len(out)):
        radius = ((_word(key, 2 * (first + k)) >> np.uint64(11)) + 1) * 2.0**-53
        angle = (_word(key, 2 * (first + k) + 1) >> np.uint64(11)) * 2.0**-53
        out[k] = math.sqrt(-2 * math.log(radius)) * math.cos(2 * math.pi * angle)
