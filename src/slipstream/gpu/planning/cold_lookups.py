"""The lookups of rows that are not kept, of batches that were read at once."""

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


class KeptRows(NamedTuple):
    """The kept rows of one group, the first ones of each of its tables; a number for each feature.

    `columns` are the columns in the block of single ids, `limits` how many rows of the table are
    kept, `starts` where the rows of the table begin, `sizes` how many there are, and `bases` the
    slot of the first.
    """

    columns: Array
    limits: Array
    starts: Array
    sizes: Array
    bases: Array


def kept_of(layout: Layout, group: Group, singles: Sequence[str], keep: Array) -> KeptRows | None:
    """The kept rows of a group, if a device can find them by comparing ids, else None.

    It can where every feature is a single one and the kept rows of each table (`keep`, in order of
    their slots) are its first. `singles` names the columns in the block of single ids.
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
    return KeptRows(
        columns=np.array([singles.index(f.column) for f in features], dtype=np.int64),
        limits=np.array([limits[f.table] for f in features], dtype=np.int32),
        starts=np.array([group.start(f.table) for f in features], dtype=np.int64),
        sizes=np.array([layout.table(f.table).rows for f in features], dtype=np.int64),
        bases=np.array([bases[f.table] for f in features], dtype=np.int32),
    )


@dataclass(frozen=True)
class Scanned:
    """The lookups of rows that are not kept, of one group and some batches.

    `places` (int32) are `input * features + feature`. `bounds` is where the lookups of each batch
    begin, and where the last end.
    """

    places: Array
    rows: Array
    bounds: Array


class Scanner:
    """Scans the ids of one group, for one thread; `names` are its columns, for an error."""

    def __init__(self, rows: KeptRows, names: Sequence[str]) -> None:
        self._resident, self._names = rows, names
        self._limits = {size: rows.limits.astype(f"u{size}") for size in (4, 8)}
        # Half the bytes where that is enough: they are read many times.
        last = int((rows.starts + rows.sizes).max(initial=0))
        self._row = np.int32 if last < 2**31 else np.int64
        self._places, self._rows = np.empty(0, dtype=np.int32), np.empty(0, dtype=self._row)

    def scan(self, read: ReadBlock) -> Scanned:
        """The lookups of batches that were read at once."""
        whole = read.tensors["ids"]
        ids = self._columns(whole.flatten(0, 1).numpy()[: read.inputs])
        # Room for all of them, though few are needed: new memory costs more.
        if ids.size > len(self._places):
            self._places, self._rows = np.empty(ids.size, np.int32), np.empty(ids.size, self._row)
        bounds = np.empty(read.batches + 1, dtype=np.int64)
        wrong, places, rows = cold_kernels.scan_and_copy(
            ids.view(f"u{ids.itemsize}"), read.inputs, whole.shape[1], self._limits[ids.itemsize],
            self._resident.starts, self._resident.sizes, self._places, self._rows, bounds,
        )  # fmt: skip
        if wrong:
            at, feature = divmod(-1 - wrong, len(self._names))
            number = int(read.tensors["example_numbers"].flatten()[at])
            raise DataError(
                f"Input {number} has the id {ids[at, feature]} in column "
                f"{self._names[feature]!r}, whose table has {self._resident.sizes[feature]:,} rows."
            )
        return Scanned(places, rows, bounds)

    def _columns(self, ids: Array) -> Array:
        """The columns of the features; not copied where these are all there are, in order."""
        columns = self._resident.columns
        if np.array_equal(columns, np.arange(ids.shape[1])):
            return ids
        return np.ascontiguousarray(ids[:, columns])


def read_of(batches: Sequence[Batch]) -> ReadBlock:
    """The block that batches side by side were read with, or one for a single batch."""
    first, count = batches[0], len(batches)
    if first.read_block is None:
        return ReadBlock(
            {"ids": first.ids[None], "example_numbers": first.example_numbers[None]},
            first.n_valid,
            1,
        )
    if count == first.read_block.batches:
        return first.read_block
    return first.read_block.some(first.place, count)


def read_at_once(batches: Iterable[Batch], most: int) -> Iterator[list[Batch]]:
    """Batches that were read at once, or some of them; never waits for more."""
    coming = iter(batches)
    for first in coming:
        left = 0 if first.read_block is None else first.read_block.batches - first.place - 1
        yield [first, *islice(coming, min(left, most - 1))]
