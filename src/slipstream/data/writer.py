"""Writes a packed data set to `OUT.partial`, and gives it its name when it is whole."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.arrays import Array
from slipstream.data.atomic_write import check_replaceable, partial_path, publish
from slipstream.data.encoder import Dictionary
from slipstream.data.inputs import Examples
from slipstream.data.layout import (
    MANIFEST,
    PARTS,
    ROWS_PER_SHARD,
    fixed_fields,
    list_fields,
    list_file,
    shard_file,
    table_file,
)
from slipstream.data.manifest import FileInfo, ListStats, Manifest, PartInfo, versions
from slipstream.data.schema import Schema, Table
from slipstream.errors import DataError

_READ = 1 << 20


class DatasetWriter:
    """Writes examples part by part; leaves a packed data set at `out`, or nothing.

    `source` says how the data set is made, for the manifest. A caller that has locked the partial
    folder and renames it in the end passes it as `work`; by default the writer does both. To
    continue in the `work` of an earlier process, pass its `position` as `resume`.

    Example:
        >>> names = [table.name for table in dataset.schema.tables]
        >>> with DatasetWriter("half", dataset.schema, source={"kind": "example"}) as writer:
        ...     writer.append("train", dataset.train.shards[0].slice(0, 800))
        ...     writer.finish(
        ...         {name: dataset.counts(name) for name in names},
        ...         {name: dataset.dictionary(name) for name in names},
        ...     ).name
        'half'
    """

    def __init__(
        self,
        out: str | Path,
        schema: Schema,
        *,
        source: dict[str, Any],
        rows_per_shard: int = ROWS_PER_SHARD,
        force: bool = False,
        work: Path | None = None,
        resume: dict[str, Any] | None = None,
    ) -> None:
        if rows_per_shard < 1:
            raise DataError(f"rows_per_shard is {rows_per_shard}; it must be at least 1.")
        self.out = Path(out).resolve()
        self.schema = schema
        self.source = source
        self.rows_per_shard = rows_per_shard
        self.force = force
        check_replaceable(self.out, force)
        self._finished = False
        self._claim = contextlib.ExitStack()
        self._claims = work is None
        if work is None:
            work = self._claim.enter_context(partial_path(self.out))
            shutil.rmtree(work, ignore_errors=True)  # the rest of a writer that died
            work.mkdir()
        self.work = work
        position = resume or {"files": {}, "parts": {}}
        self._files = {name: FileInfo(**info) for name, info in position["files"].items()}
        self._parts = {name: _PartWriter(self, name, position["parts"].get(name)) for name in PARTS}

    def append(self, part: str, inputs: Examples) -> None:
        """Append examples to a part."""
        inputs.check(self.schema)
        inputs.check_ids(self.schema)
        self._parts[part].append(inputs)

    def position(self) -> dict[str, Any]:
        """Everything that a later process needs to continue, as JSON values."""
        return {
            "files": {name: asdict(info) for name, info in self._files.items()},
            "parts": {name: part.position() for name, part in self._parts.items()},
        }

    def add_file(self, path: str, array: Array) -> None:
        """Write a whole file of the data set."""
        with _HashedFile(self.work / path) as file:
            file.write(array)
        self._files[path] = file.info

    def finish(
        self,
        counts: dict[str, Array],
        dictionaries: dict[str, Dictionary] | None = None,
        *,
        bad_rows: dict[str, int] | None = None,
        oracle: dict[str, dict[str, float]] | None = None,
        buckets: dict[str, Array] | None = None,
    ) -> Path:
        """Write the tables and the manifest, give the folder its name, and return its path.

        A folder that was passed as `work` keeps its name. `counts` are those of each id of each
        table in the training part; tables with raw values or hashed buckets need these too.
        """
        parts = {name: part.finish() for name, part in self._parts.items()}
        for table in self.schema.tables:
            dictionary = (dictionaries or {}).get(table.name)
            ids = (buckets or {}).get(table.name)
            per_id = np.asarray(counts[table.name], dtype="<i8")
            self._add_table(table, per_id, dictionary, ids)
        manifest = Manifest(
            schema=self.schema,
            parts=parts,
            files=self._files,
            source=self.source,
            rows_per_shard=self.rows_per_shard,
            bad_rows=bad_rows or {},
            oracle=oracle,
            versions=versions(),
        )
        with (self.work / MANIFEST).open("w", encoding="utf-8") as file:
            file.write(manifest.to_text())
            _to_disk(file)
        if self._claims:
            publish(self.work, self.out, self.force)
        self._finished = True  # from here on the folder aside may be another writer's
        self._claim.close()
        return self.out if self._claims else self.work

    def abandon(self) -> None:
        """Remove the files that were written, unless the data set is finished."""
        if self._finished:
            return
        for part in self._parts.values():
            part.abandon()
        with self._claim:
            shutil.rmtree(self.work, ignore_errors=True)

    def __enter__(self) -> DatasetWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.abandon()

    def _add_table(
        self, table: Table, counts: Array, dictionary: Dictionary | None, buckets: Array | None
    ) -> None:
        if counts.shape != (table.rows,):
            raise DataError(
                f"Table {table.name!r} has {table.rows} rows, but counts of shape {counts.shape}."
            )
        if (dictionary.kind if dictionary else None) != table.values:
            raise DataError(f"Table {table.name!r} needs a dictionary of kind {table.values!r}.")
        if (0 if buckets is None else len(buckets)) != table.buckets:
            raise DataError(f"Table {table.name!r} needs the ids of {table.buckets} buckets.")
        arrays = {"counts": counts, **(dictionary.arrays() if dictionary else {})}
        if buckets is not None:
            arrays["buckets"] = buckets
        for name, array in arrays.items():
            self.add_file(table_file(self.schema, table.name, name), array)


class _PartWriter:
    """Cuts the examples of one part into shards."""

    def __init__(
        self, writer: DatasetWriter, name: str, resume: dict[str, Any] | None = None
    ) -> None:
        self.writer, self.name, self.schema = writer, name, writer.schema
        self.shards: list[int] = []
        self.positives = 0.0
        self.lengths: dict[str, Counter[int]] = {c.name: Counter() for c in self.schema.lists}
        self.open: dict[str, _HashedFile] = {}
        self.list_ends: dict[str, int] = {}
        if resume is not None:
            self.shards, self.positives = list(resume["shards"]), resume["positives"]
            self.list_ends = dict(resume["list_ends"])
            for column, lengths in resume["lengths"].items():
                self.lengths[column].update(dict(lengths))
            self.open = {
                path: _HashedFile(writer.work / path, size) for path, size in resume["open"].items()
            }

    def position(self) -> dict[str, Any]:
        return {
            "shards": list(self.shards),
            "positives": self.positives,
            "lengths": {name: sorted(lengths.items()) for name, lengths in self.lengths.items()},
            "list_ends": dict(self.list_ends),
            "open": {path: file.size() for path, file in self.open.items()},
        }

    def append(self, inputs: Examples) -> None:
        start = 0
        while start < len(inputs):
            if not self.open:
                self._open_shard()
            stop = min(len(inputs), start + self.writer.rows_per_shard - self.shards[-1])
            self._append_to_shard(inputs.slice(start, stop))
            start = stop
            if self.shards[-1] == self.writer.rows_per_shard:
                self.close()

    def finish(self) -> PartInfo:
        self.close()
        lists = {name: ListStats.of(lengths) for name, lengths in self.lengths.items()}
        return PartInfo(sum(self.shards), self.positives, self.shards, lists)

    def close(self) -> None:
        for path, file in self.open.items():
            file.close()
            self.writer._files[path] = file.info
        self.open.clear()

    def abandon(self) -> None:
        for file in self.open.values():
            file.abandon()
        self.open.clear()

    def _list_path(self, column: str, array: str) -> str:
        return list_file(self.schema, self.name, len(self.shards) - 1, column, array)

    def _open_shard(self) -> None:
        self.shards.append(0)
        self.list_ends = dict.fromkeys(self.lengths, 0)
        number = len(self.shards) - 1
        paths = [shard_file(self.name, number, name) for name in fixed_fields(self.schema)]
        for column in self.list_ends:
            paths += [self._list_path(column, array) for array in ("values", "offsets")]
        self.open = {path: _HashedFile(self.writer.work / path) for path in paths}
        for column in self.list_ends:
            self.open[self._list_path(column, "offsets")].write(np.zeros(1, dtype="<i8"))

    def _append_to_shard(self, inputs: Examples) -> None:
        arrays = inputs.fixed()
        for name, field in fixed_fields(self.schema).items():
            file = self.open[shard_file(self.name, len(self.shards) - 1, name)]
            file.write(arrays[name].astype(field.dtype, copy=False))
        for name, dtype in list_fields(self.schema).items():
            ragged = inputs.lists[name]
            ends = ragged.offsets[1:].astype("<i8") + self.list_ends[name]
            values = ragged.values.astype(dtype, copy=False)
            self.open[self._list_path(name, "values")].write(values)
            self.open[self._list_path(name, "offsets")].write(ends)
            self.list_ends[name] = int(ends[-1])
            lengths, times = np.unique(np.diff(ragged.offsets), return_counts=True)
            self.lengths[name].update(dict(zip(lengths.tolist(), times.tolist(), strict=True)))
        self.positives += float(inputs.labels.sum(dtype=np.float64))
        self.shards[-1] += len(inputs)


class _HashedFile:
    """A file that is only appended to; its checksum is ready when it is closed.

    `keep` is how many bytes of a file that is there to keep and go on from.
    """

    def __init__(self, path: Path, keep: int | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._hash = hashlib.sha256()
        self._bytes = 0
        self._file = path.open("wb" if keep is None else "r+b")
        while keep is not None and self._bytes < keep:
            data = self._file.read(min(_READ, keep - self._bytes))
            if not data:
                raise DataError(f"{path} is shorter than it was: remove {path.parents[1]}.")
            self._hash.update(data)
            self._bytes += len(data)
        self._file.truncate(self._bytes)

    def size(self) -> int:
        """Bytes written, all of them with the system."""
        self._file.flush()
        return self._bytes

    def write(self, array: Array) -> None:
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        self._hash.update(data)
        self._file.write(data)
        self._bytes += data.nbytes

    def close(self) -> None:
        if not self._file.closed:
            try:
                _to_disk(self._file)
            finally:
                self._file.close()

    def abandon(self) -> None:
        with contextlib.suppress(OSError):  # the rest of the buffer may not fit the disk
            self._file.close()

    @property
    def info(self) -> FileInfo:
        return FileInfo(self._bytes, self._hash.hexdigest())

    def __enter__(self) -> _HashedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _to_disk(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())
