"""Finds the lookups of rows that are not kept, of batches that were read at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from slipstream.arrays import Array
from slipstream.data.batch import Batch, ReadBlock
from slipstream.errors import DataError
from slipstream.gpu.planning import cold_kernels
from slipstream.tables.spec import Group, Layout


class Kept(NamedTuple):
    """The kept rows of one group, which are the first of each of its tables.

    Args:
        columns: For each feature its column in the block of single ids.
        limits: How many rows of its table are kept.
        starts: Where the rows of its table begin.
        sizes: How many there are.
        bases: The slot of the first of them.
    """

    columns: Array
    limits: Array
    starts: Array
    sizes: Array
    bases: Array


def kept_of(layout: Layout, group: Group, singles: Sequence[str], keep: Array) -> Kept | None:
    """How a device finds kept rows by comparing ids, or None where it cannot.

    It can where every feature is a single one and the kept rows of each table are its first.

    Args:
        layout: Tables and features.
        group: One of its groups.
        singles: The names of the columns in the block of single ids, in order.
        keep: The kept rows, in order of their slots.
    """
    if group.sequences or any(layout.features[n].kind != "single" for n in group.features):
        return None
    limits, bases = {}, {}
    end = 0
    for table, start, stop in zip(group.tables, group.starts, group.starts[1:], strict=False):
        # Rows that are in order are the only ones that can be the first of each table.
        count = min(max(0, int(np.searchsorted(keep, stop)) - end), stop - start)
        if not np.array_equal(keep[end : end + count], np.arange(start, start + count)):
            return None
        limits[table.name], bases[table.name] = count, end
        end += count
    if end < len(keep):
        return None
    features = [layout.features[n] for n in group.features]
    return Kept(
        columns=np.array([singles.index(f.column) for f in features], dtype=np.int64),
        limits=np.array([limits[f.table] for f in features], dtype=np.int32),
        starts=np.array([group.start(f.table) for f in features], dtype=np.int64),
        sizes=np.array([layout.table(f.table).rows for f in features], dtype=np.int64),
        bases=np.array([bases[f.table] for f in features], dtype=np.int32),
    )


@dataclass(frozen=True)
class Scanned:
    """The lookups of rows that are not kept, of one group and some batches.

    Args:
        places: int32: `input * features + feature`.
        rows: The rows, in the same order.
        bounds: Where the lookups of each batch begin, and the end of the last.
    """

    places: Array
    rows: Array
    bounds: Array


class Scanner:
    """Looks at the ids of one group, for one thread.

    Args:
        kept: Its kept rows.
        names: The column of each of its features, for an error.
    """

    def __init__(self, kept: Kept, names: Sequence[str]) -> None:
        self._kept, self._names = kept, names
        self._limits = {size: kept.limits.astype(f"u{size}") for size in (4, 8)}
        # Half the bytes where that is enough: they go through memory many times.
        last = int((kept.starts + kept.sizes).max(initial=0))
        self._row = np.int32 if last < 2**31 else np.int64
        self._places, self._rows = np.empty(0, dtype=np.int32), np.empty(0, dtype=self._row)

    def scan(self, read: ReadBlock) -> Scanned:
        """The lookups of batches that were read at once."""
        whole = read.tensors["ids"]
        ids = self._columns(whole.flatten(0, 1).numpy()[: read.inputs])
        # Room for all of them, though few are found: new memory would cost more than they do.
        if ids.size > len(self._places):
            self._places, self._rows = np.empty(ids.size, np.int32), np.empty(ids.size, self._row)
        bounds = np.empty(read.batches + 1, dtype=np.int64)
        wrong, places, rows = cold_kernels.found(
            ids.view(f"u{ids.itemsize}"),
            read.inputs,
            whole.shape[1],
            self._limits[ids.itemsize],
            self._kept.starts,
            self._kept.sizes,
            self._places,
            self._rows,
            bounds,
        )
        if wrong:
            at, feature = divmod(-1 - wrong, len(self._names))
            number = int(read.tensors["numbers"].flatten()[at])
            raise DataError(
                f"Input {number} has the id {ids[at, feature]} in column "
                f"{self._names[feature]!r}, whose table has {self._kept.sizes[feature]:,} rows."
            )
        return Scanned(places, rows, bounds)

    def _columns(self, ids: Array) -> Array:
        """The columns of the features; not copied where these are all there are, in order."""
        columns = self._kept.columns
        if np.array_equal(columns, np.arange(ids.shape[1])):
            return ids
        return np.ascontiguousarray(ids[:, columns])


def read_of(batches: Sequence[Batch]) -> ReadBlock:
    """What was read of batches that lie side by side, or of one."""
    one, count = batches[0], len(batches)
    if one.read_block is None:
        return ReadBlock({"ids": one.ids[None], "numbers": one.numbers[None]}, one.n_valid, 1)
    if count == one.read_block.batches:
        return one.read_block
    return one.read_block.some(one.place, count)


def read_at_once(batches: Iterable[Batch], most: int) -> Iterator[list[Batch]]:
    """Batches that were read at once, or some of them; none is waited for to have more."""
    coming = iter(batches)
    for first in coming:
        left = 0 if first.read_block is None else first.read_block.batches - first.place - 1
        yield [first, *islice(coming, min(left, most - 1))]
