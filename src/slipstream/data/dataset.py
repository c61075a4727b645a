"""A data set: three parts of examples, their tables, and where they came from."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.arrays import Array
from slipstream.data import layout
from slipstream.data.encoder import Dictionary, Encoder
from slipstream.data.inputs import Examples, Ragged
from slipstream.data.manifest import Manifest, read_manifest
from slipstream.data.schema import Schema
from slipstream.data.writer import DatasetWriter
from slipstream.errors import DataError

_SAVED_AT_ONCE = 1 << 16


class Part:
    """The examples of one part, numbered `0 .. len(part)` across its shards.

    Args:
        name: train, validation or evaluation.
        schema: What each example consists of.
        shards: The arrays, in order; mapped from files or in memory.
    """

    def __init__(self, name: str, schema: Schema, shards: Sequence[Examples]) -> None:
        self.name = name
        self.schema = schema
        self.shards = list(shards)
        self.starts = [0]
        for shard in self.shards:
            self.starts.append(self.starts[-1] + len(shard))

    def __len__(self) -> int:
        return self.starts[-1]

    def runs(self, start: int, stop: int) -> list[Examples]:
        """Examples start to stop as views, one for each shard that they touch."""
        runs = []
        while start < stop:
            shard = bisect.bisect_right(self.starts, start) - 1
            end = min(stop, self.starts[shard + 1])
            first = self.starts[shard]
            runs.append(self.shards[shard].slice(start - first, end - first))
            start = end
        return runs


class Dataset:
    """A packed data set, opened from its folder or built in memory.

    Example:
        >>> dataset = Dataset.open("clicks")
        >>> len(dataset.train), dataset.schema.dense
        (1700, ('I1', 'I2', 'I3', 'I4'))
    """

    def __init__(
        self,
        manifest: Manifest,
        parts: dict[str, Part],
        counts: Callable[[str], Array],
        dictionary: Callable[[str], Dictionary | None],
        folder: Path | None = None,
        buckets: Callable[[str], Array | None] = lambda _: None,
    ) -> None:
        self.manifest = manifest
        self.schema = manifest.schema
        self.parts = parts
        self.folder = folder
        self.counts = counts
        self.dictionary = dictionary
        self.buckets = buckets

    @property
    def train(self) -> Part:
        """The examples to learn from."""
        return self.parts["train"]

    @property
    def validation(self) -> Part:
        """The end of the training time, for anything that steers."""
        return self.parts["validation"]

    @property
    def evaluation(self) -> Part:
        """What is reported is measured here, and nothing else is done with it."""
        return self.parts["evaluation"]

    @classmethod
    def open(cls, folder: str | Path) -> Dataset:
        """Map a packed data set into memory.

        Sizes are checked here and cost nothing; contents are checked by `verify`, which reads
        every byte.
        """
        folder = Path(folder)
        manifest = read_manifest(folder)
        for name, info in manifest.files.items():
            path = folder / name
            size = path.stat().st_size if path.is_file() else None
            if size is None:
                raise DataError(f"{path} is missing. Restore it or make the data set again.")
            if size != info.bytes:
                raise DataError(
                    f"{path} is damaged: it has {size} bytes instead of {info.bytes}. "
                    "Restore it or make the data set again."
                )
        schema = manifest.schema
        parts = {
            name: Part(name, schema, _map_shards(folder, schema, name, manifest))
            for name in layout.PARTS
        }

        def counts(table: str) -> Array:
            return _map(folder / layout.table_file(schema, table, "counts"), np.dtype("<i8"))

        def dictionary(table: str) -> Dictionary | None:
            return _map_dictionary(folder, schema, table)

        def buckets(table: str) -> Array | None:
            if not schema.table(table).buckets:
                return None
            return _map(folder / layout.table_file(schema, table, "buckets"), np.dtype("<i8"))

        return cls(manifest, parts, counts, dictionary, folder, buckets)

    def encoder(self, table: str) -> Encoder:
        """Gives raw values of a table the ids that they have in this data set.

        Example:
            >>> dataset.encoder("user").encode(["ann", None, "bob"])  # doctest: +SKIP
        """
        return Encoder(self.schema.table(table), self.dictionary(table), self.buckets(table))

    def save(
        self,
        folder: str | Path,
        *,
        rows_per_shard: int = layout.ROWS_PER_SHARD,
        force: bool = False,
    ) -> Dataset:
        """Write the data set to a folder and open it from there."""
        manifest = self.manifest
        options: Any = {"rows_per_shard": rows_per_shard, "force": force}
        with DatasetWriter(folder, self.schema, source=manifest.source, **options) as writer:
            for name, part in self.parts.items():
                for start in range(0, len(part), _SAVED_AT_ONCE):
                    for run in part.runs(start, min(start + _SAVED_AT_ONCE, len(part))):
                        writer.append(name, run)
            names = [table.name for table in self.schema.tables]
            known = {name: self.dictionary(name) for name in names}
            buckets = {name: self.buckets(name) for name in names}
            writer.finish(
                {name: self.counts(name) for name in names},
                {name: dictionary for name, dictionary in known.items() if dictionary},
                bad_rows=manifest.bad_rows,
                oracle=manifest.oracle,
                buckets={name: array for name, array in buckets.items() if array is not None},
            )
        return Dataset.open(folder)


def _map_shards(folder: Path, schema: Schema, part: str, manifest: Manifest) -> list[Examples]:
    shards = []
    for number, rows in enumerate(manifest.parts[part].shards):
        arrays = {}
        for name, field in layout.fixed_fields(schema).items():
            path = folder / layout.shard_file(part, number, name)
            arrays[name] = _map(path, field.dtype, (rows, *field.shape))
        lists = {}
        for name, dtype in layout.list_fields(schema).items():
            files = [
                folder / layout.list_file(schema, part, number, name, w)
                for w in ("values", "offsets")
            ]
            lists[name] = Ragged(_map(files[0], dtype), _map(files[1], np.dtype("<i8")))
        shards.append(Examples(**arrays, lists=lists))
    return shards


def _map_dictionary(folder: Path, schema: Schema, table: str) -> Dictionary | None:
    kind = schema.table(table).values
    if kind is None:
        return None
    dtype = {"hex": "<u4", "int": "<i8", "text": "u1"}[kind]
    values = _map(folder / layout.table_file(schema, table, "values"), np.dtype(dtype))
    if kind != "text":
        return Dictionary(kind, values)
    offsets = _map(folder / layout.table_file(schema, table, "offsets"), np.dtype("<i8"))
    return Dictionary(kind, values, offsets)


def _map(path: Path, dtype: np.dtype[np.generic], shape: tuple[int, ...] | None = None) -> Array:
    """The file as a read-only array; pages are read when they are touched."""
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.empty(shape or (0,), dtype=dtype)
    # A plain array over the map: np.memmap's own indexing costs more than the reads of a batch.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=shape)).view(np.ndarray)
