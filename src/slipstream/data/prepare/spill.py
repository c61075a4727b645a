"""Columns on disk while a data set is being prepared: appended to, cut back, and mapped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.arrays import Array

_MOST_OPEN = 256  # files at once; systems allow a process about a thousand


class Spill:
    """A folder of growing columns, one file each, cut to the size in `sizes` when opened."""

    def __init__(self, folder: Path, sizes: dict[str, int]) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.sizes = dict(sizes)
        self._open: dict[str, Any] = {}

    def append(self, arrays: dict[str, Array]) -> None:
        """Add to the end of each column; it is with the system when this returns."""
        for name, array in arrays.items():
            file = self._file(name)
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            file.write(data)
            self.sizes[name] += data.nbytes
        for file in self._open.values():
            file.flush()

    def _file(self, name: str) -> Any:
        if name not in self._open:
            if len(self._open) == _MOST_OPEN:
                self.close()
            path = self.folder / name
            file = path.open("r+b" if path.exists() else "w+b")
            file.truncate(self.sizes.setdefault(name, 0))
            file.seek(0, 2)
            self._open[name] = file
        return self._open[name]

    def close(self) -> None:
        """Close all files; appending opens them again."""
        for file in self._open.values():
            file.close()
        self._open.clear()


def mapped(path: Path, dtype: Any, shape: tuple[int, ...] | None = None) -> Array:
    """A file as a read-only array; an empty or absent one has no values."""
    if not path.exists() or path.stat().st_size == 0:
        return np.empty(shape or (0,), dtype=dtype)
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=shape)).view(np.ndarray)


def new_map(path: Path, count: int, dtype: Any) -> Array:
    """A new file of zeros as an array to write to: on disk, not in anonymous memory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if count == 0:
        path.touch()
        return np.empty(0, dtype=dtype)
    with path.open("wb") as file:
        size = count * np.dtype(dtype).itemsize
        if hasattr(os, "posix_fallocate"):  # a full disk is an error here, and no crash later
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)
    return np.asarray(np.memmap(path, dtype=dtype, mode="r+", shape=(count,))).view(np.ndarray)
