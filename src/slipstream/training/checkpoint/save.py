"""Writing one checkpoint: every file flushed to the disk, then its name."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slipstream.arrays import Array
from slipstream.data.manifest import FileInfo
from slipstream.tables.store import RowStore
from slipstream.training.checkpoint import folders
from slipstream.training.checkpoint.contents import (
    DENSE,
    STATE,
    SavedTable,
    contents_text,
    rows_file,
)
from slipstream.training.checkpoint.frozen_rows import FrozenRows
from slipstream.training.checkpoint.tensor_file import Entry, blank

RANGE_BYTES = 64 << 20
_WRITE_BYTES = 8 << 20
_TYPES = {"fp32": "F32", "fp64": "F64", "bf16": "BF16", "split-bf16": "BF16"}


class Stopped(Exception):  # noqa: N818 - not an error
    """The save was given up."""


@dataclass
class Save:
    """Everything that goes into one checkpoint, and how far it is written."""

    folder: Path
    step: int
    stores: Sequence[RowStore]
    frozen_rows: Sequence[FrozenRows]
    dense: Array
    state: str
    stop: threading.Event
    tables: list[SavedTable] = field(default_factory=list)
    files: dict[str, FileInfo] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The folder of the finished checkpoint."""
        return folders.path_of(self.folder, self.step)

    @property
    def work(self) -> Path:
        """The folder while it is written."""
        return folders.partial(self.path)

    def write_rows(self) -> None:
        """Write the rows of all tables; afterwards `frozen_rows` is not needed any more."""
        if self.work.exists():  # a removal that failed half way
            shutil.rmtree(self.work)
        (self.work / "rows").mkdir(parents=True)
        for number, store in enumerate(self.stores):
            row_bytes = sum(f.size * f.dtype.itemsize for f in store.record.fields.values())
            at_once = max(1, RANGE_BYTES // row_bytes)
            for table in store.group.tables:
                ranges = tuple(range(0, table.rows, at_once))
                for first in ranges:
                    self._write_range(number, table.name, first, min(table.rows, first + at_once))
                optimizer = table.chosen_optimizer.name
                self.tables.append(
                    SavedTable(table.name, table.rows, table.dim, table.storage, optimizer, ranges)
                )

    def finish(self) -> None:
        """Write the rest, wait for the disk, and give the checkpoint its name."""
        self._write(DENSE, self.dense.data)
        text = contents_text(self.step, self.tables, self.files, self.state)
        self._write(STATE, memoryview(text.encode()))
        folders.flush_folder(self.work / "rows")
        folders.flush_folder(self.work)
        folders.put_in_place(self.folder, self.step)

    def failed(self, error: Exception) -> str:
        """A sentence for a save that could not be finished."""
        where, why = "", f"{type(error).__name__}: {error}"
        if isinstance(error, OSError) and error.strerror:
            where, why = f" {error.filename or self.work}", error.strerror
        return (
            f"The checkpoint of step {self.step} could not be saved: writing{where} failed "
            f"({why}). Older checkpoints in {self.folder} are intact. Make room or choose another "
            "disk, then resume the run."
        )

    def _write_range(self, number: int, table: str, first: int, stop: int) -> None:
        store = self.stores[number]
        start = store.group.start(table)
        entries = {
            name: Entry(_type_of(store, name), (stop - first, layout.size))
            for name, layout in store.record.fields.items()
        }
        data, values = blank(entries, {"table": table, "first_row": str(first)})
        self.frozen_rows[number].read(start + first, start + stop, values)
        self._write(rows_file(len(self.tables), first), data.data)

    def _write(self, name: str, data: memoryview) -> None:
        if self.stop.is_set():
            raise Stopped
        path = self.work / name
        digest = hashlib.sha256()
        try:
            with path.open("xb", buffering=0) as file:
                left = data
                while len(left):
                    done = file.write(left[:_WRITE_BYTES])
                    digest.update(left[:done])
                    left = left[done:]
                os.fsync(file.fileno())
        except OSError as error:  # an error about an open file does not name it
            raise OSError(error.errno, error.strerror, str(path)) from error
        self.files[name] = FileInfo(len(data), digest.hexdigest())


def _type_of(store: RowStore, field_name: str) -> str:
    if field_name == "weight":
        return _TYPES[store.group.storage]
    if field_name == "weight_low":
        return "U16"
    return "F64" if store.group.storage == "fp64" else "F32"
