"""The slow store: every row of a group with its optimizer state beside it, in one array."""

from __future__ import annotations

import mmap
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from slipstream.arrays import Array
from slipstream.errors import ConfigError
from slipstream.tables.spec import Group, Storage

_WEIGHTS: dict[Storage, dict[str, str]] = {
    "fp32": {"weight": "<f4"},
    "fp64": {"weight": "<f8"},
    "bf16": {"weight": "<u2"},
    "split-bf16": {"weight": "<u2", "weight_low": "<u2"},
}
_HUGE_PAGES = 1 << 22


class RecordField(NamedTuple):
    """Where a field lies in a record: its first byte, how many elements, of what type."""

    start: int
    size: int
    dtype: np.dtype[np.generic]


@dataclass(frozen=True)
class Record:
    """What is kept of a row: its elements, then the optimizer's state, as 32-bit words.

    bfloat16 has no NumPy type: such fields are their bits as uint16.
    """

    fields: dict[str, RecordField]
    words: int

    @classmethod
    def of(cls, group: Group) -> Record:
        """The record of a group's rows."""
        state_dtype = "<f8" if group.storage == "fp64" else "<f4"
        wanted = {name: (dtype, group.dim) for name, dtype in _WEIGHTS[group.storage].items()}
        for name, count in group.optimizer.state_sizes(group.dim).items():
            wanted[name] = (state_dtype, count)
        fields, end = {}, 0
        for name, (text, count) in wanted.items():
            dtype = np.dtype(text)
            align = max(4, dtype.itemsize)
            end = -(-end // align) * align
            fields[name] = RecordField(end, count, dtype)
            end += count * dtype.itemsize
        word = 8 if group.storage == "fp64" else 4  # so that every view of all records is whole
        return cls(fields, -(-end // word) * word // 4)

    def split(self, records: Array) -> dict[str, Array]:
        """The fields of `[n, words]` records, as views of them."""
        views = {}
        for name, f in self.fields.items():
            first = f.start // f.dtype.itemsize
            views[name] = records.view(f.dtype)[:, first : first + f.size]
        return views


class RowStore:
    """The records of a group's rows, in memory or in a mapped file; zeros until filled.

    Args:
        group: The tables that stand in it.
        path: A file to make, sparse, and to map instead of using memory.
        slots: How many records there are, for a fast tier that holds some of the rows; None is
            one for every row of the group.
    """

    def __init__(self, group: Group, path: Path | None = None, slots: int | None = None) -> None:
        self.group = group
        self.record = Record.of(group)
        shape = (group.rows if slots is None else slots, self.record.words)
        self.records: Array = in_memory(shape) if path is None else _mapped(path, shape)

    @property
    def bytes(self) -> int:
        """Memory of all records."""
        return self.records.nbytes

    @cached_property
    def views(self) -> dict[str, Array]:
        """The fields of all records."""
        return self.record.split(self.records)

    def rows_of(self, table: str) -> slice:
        """Where a table's records stand."""
        number = [spec.name for spec in self.group.tables].index(table)
        return slice(self.group.starts[number], self.group.starts[number + 1])

    def look(self, rows: Tensor) -> Tensor:
        """Some rows as the forward pass sees them."""
        return self.weights(self.record.split(self.records[rows.numpy()]))

    def read(self, rows: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Some rows at full precision, and their optimizer state."""
        fields = self.record.split(self.records[rows.numpy()])
        return self.weights(fields, full=True), {
            name: torch.from_numpy(np.ascontiguousarray(fields[name]))
            for name in self.group.optimizer.state_sizes(self.group.dim)
        }

    def write(self, rows: Tensor, weights: Tensor, state: dict[str, Tensor]) -> None:
        """Put rows and their state back."""
        index = rows.numpy()
        for name, values in (*encoded(self.group.storage, weights).items(), *state.items()):
            array = values.numpy() if isinstance(values, Tensor) else values
            self.views[name][index] = array

    def weights(self, fields: dict[str, Array], full: bool = False) -> Tensor:
        """The elements in fields of records as numbers; `full` also reads the lower half."""
        weight = np.ascontiguousarray(fields["weight"])
        if self.group.storage in ("fp32", "fp64"):
            return torch.from_numpy(weight)
        bits = weight.astype(np.uint32) << np.uint32(16)
        if full and self.group.storage == "split-bf16":
            bits |= fields["weight_low"]
        return torch.from_numpy(bits.view(np.float32))


def encoded(storage: Storage, weights: Tensor) -> dict[str, Array]:
    """Numbers as they are stored; bfloat16 is rounded to the nearest, split halves are exact."""
    if storage in ("fp32", "fp64"):
        return {"weight": weights.numpy()}
    if storage == "bf16":
        return {"weight": weights.to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)}
    bits = weights.contiguous().numpy().view(np.uint32)
    low = (bits & np.uint32(0xFFFF)).astype(np.uint16)
    return {"weight": (bits >> np.uint32(16)).astype(np.uint16), "weight_low": low}


def in_memory(shape: tuple[int, int]) -> Array:
    """Zeros, on large pages where the system has them: random rows then miss the TLB less."""
    size = max(1, shape[0] * shape[1] * 4)
    if size < _HUGE_PAGES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return np.zeros(shape, dtype=np.int32)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel without large pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype=np.int32).reshape(shape)


def _mapped(path: Path, shape: tuple[int, int]) -> Array:
    size = shape[0] * shape[1] * 4
    try:
        with path.open("xb") as file:
            file.truncate(size)
    except FileExistsError:
        raise ConfigError(
            f"{path} is there already, with rows of something else: delete it, or choose another "
            "folder for the rows."
        ) from None
    return np.asarray(np.memmap(path, dtype=np.int32, mode="r+", shape=shape)).view(np.ndarray)
