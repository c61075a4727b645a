"""Loading checkpoints: the newest that is whole, range by range into the rows of any layout."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.arrays import Array
from slipstream.data.manifest import FileInfo
from slipstream.errors import CheckpointError, did_you_mean
from slipstream.tables.spec import TableSpec
from slipstream.tables.store import RowStore, encoded
from slipstream.training.checkpoint import folders
from slipstream.training.checkpoint.contents import (
    DENSE,
    Contents,
    SavedTable,
    read_contents,
    rows_file,
)
from slipstream.training.checkpoint.tensor_file import arrays, unpack

_READ = 1 << 20
_THREADS = 4


@dataclass(frozen=True)
class WholeCheckpoint:
    """A checkpoint whose files are all whole."""

    path: Path
    contents: Contents
    warnings: tuple[str, ...] = ()  # about each newer checkpoint, which is damaged

    @property
    def step(self) -> int:
        """The number of steps done."""
        return self.contents.step

    @property
    def state(self) -> dict[str, Any]:
        """The JSON state that the caller saved."""
        return self.contents.state


def newest(folder: str | Path) -> WholeCheckpoint | None:
    """The newest checkpoint that is whole, or None if none was saved yet; every byte is checked.

    A damaged checkpoint is named in `warnings`, and the checkpoint before it is used. If all are
    damaged, the error names them all.
    """
    problems: list[str] = []
    for _, path in folders.finished(Path(folder)):
        try:
            return WholeCheckpoint(path, check(path), tuple(problems))
        except CheckpointError as error:
            problems.append(
                f"The checkpoint {path} is damaged: {error}. The one before it is used."
            )
    if not problems:
        return None
    damaged = " ".join(problem.replace(" The one before it is used.", "") for problem in problems)
    raise CheckpointError(
        f"No checkpoint in {folder} can be used. {damaged} Restore one of them from a copy, or "
        "train from the start into another folder."
    )


def check(path: Path) -> Contents:
    """Check every file of a checkpoint; the error about a damaged file is half a sentence."""
    contents = read_contents(path)
    with ThreadPoolExecutor(_THREADS) as pool:
        names = contents.files
        for problem in pool.map(lambda name: _problem(path / name, name, names[name]), names):
            if problem:
                raise CheckpointError(problem)
    return contents


def load(
    checkpoint: WholeCheckpoint, stores: Sequence[RowStore], *, state: bool = True
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Fill stores with the rows of a checkpoint, and give back its tensors and its state.

    Tables are matched by name, however they are grouped; another storage than the saved one is
    converted, rounding to the nearest. Takes the memory of one file beside the stores. If not
    `state`, the tables may have any optimizer, and its state stays as it is.
    """
    saved = {table.name: table for table in checkpoint.contents.tables}
    stored_tables = [(store, table) for store in stores for table in store.group.tables]
    problems = [*_misfits(saved, [table for _, table in stored_tables], state)]
    if problems:
        raise CheckpointError(
            f"The checkpoint {checkpoint.path} does not fit: {' '.join(problems)}"
        )
    for store, table in stored_tables:
        start = store.group.start(table.name)
        for first, fields in rows_of(checkpoint, table.name):
            rows = slice(start + first, start + first + len(fields["weight"]))
            values = stored_weights(store, fields, saved[table.name].storage)
            if state:  # converted as it is assigned
                names = store.group.optimizer.state_sizes(store.group.dim)
                values |= {name: fields[name] for name in names}
            for name, array in values.items():
                store.views[name][rows] = array
    return dense_of(checkpoint), checkpoint.state


def dense_of(checkpoint: WholeCheckpoint) -> dict[str, Tensor]:
    """The tensors of a checkpoint that are not rows, such as the dense weights."""
    path = checkpoint.path / DENSE
    return unpack(_bytes(path), path)


def rows_of(checkpoint: WholeCheckpoint, table: str) -> Iterator[tuple[int, dict[str, Array]]]:
    """The rows of a table, file by file: the first row, and the fields of it and those after it."""
    names = [saved.name for saved in checkpoint.contents.tables]
    if table not in names:
        raise CheckpointError(
            f"The checkpoint {checkpoint.path} has no table {table!r}.{did_you_mean(table, names)}"
        )
    number = names.index(table)
    saved_table = checkpoint.contents.tables[number]
    ranges = saved_table.ranges
    for first, stop in zip(ranges, (*ranges[1:], saved_table.rows), strict=True):
        path = checkpoint.path / rows_file(number, first)
        fields = {name: values for name, (_, values) in arrays(_bytes(path), path).items()}
        if any(len(values) != stop - first for values in fields.values()):
            raise CheckpointError(f"{path} does not hold rows {first} to {stop} of {table!r}.")
        yield first, fields


def stored_weights(store: RowStore, fields: dict[str, Array], saved: str) -> dict[str, Array]:
    """The elements of saved rows as a store keeps them; `saved` is how they were kept."""
    if saved == store.group.storage:
        return {name: fields[name] for name in ("weight", "weight_low") if name in fields}
    numbers = fields["weight"]
    if saved not in ("fp32", "fp64"):
        bits = numbers.astype(np.uint32) << np.uint32(16)
        if saved == "split-bf16":
            bits |= fields["weight_low"]
        numbers = bits.view(np.float32)
    dtype = torch.float64 if store.group.storage == "fp64" else torch.float32
    return encoded(store.group.storage, torch.from_numpy(numbers).to(dtype))


def _misfits(saved: dict[str, SavedTable], tables: list[TableSpec], state: bool) -> Iterator[str]:
    for name in saved.keys() - {table.name for table in tables}:
        yield f"it has a table {name!r}, which the model has not."
    for table in tables:
        if table.name not in saved:
            yield f"it has no table {table.name!r}.{did_you_mean(table.name, saved)}"
            continue
        old = saved[table.name]
        for quantity, before, now in (
            ("rows", old.rows, table.rows),
            ("elements in a row", old.dim, table.dim),
        ):
            if before != now:
                yield f"table {table.name!r} was saved with {before} {quantity} and now has {now}."
        optimizer = table.chosen_optimizer.name
        if state and old.optimizer != optimizer:
            yield (
                f"table {table.name!r} was trained with {old.optimizer}, and {optimizer} "
                f"cannot use the state of {old.optimizer}. Use {old.optimizer}."
            )


def _problem(path: Path, name: str, info: FileInfo) -> str | None:
    """What is wrong with a file, or None."""
    try:
        size = path.stat().st_size
        if size != info.bytes:
            return f"{name} has {size:,} bytes and should have {info.bytes:,}"
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(_READ):
                digest.update(block)
    except FileNotFoundError:
        return f"{name} is missing"
    except OSError as error:
        return f"{name} cannot be read ({error.strerror})"
    return None if digest.hexdigest() == info.sha256 else f"the checksum of {name} is not the saved"


def _bytes(path: Path) -> Array:
    try:
        return np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be read: {error.strerror}. Was the checkpoint removed meanwhile?"
        ) from error
