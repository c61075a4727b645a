"""The hot rows by a sample of accesses (FAE's, as Slipstream was published), and the hot inputs."""

from __future__ import annotations

import hashlib
from functools import cached_property

import numpy as np

from slipstream.config import Skip
from slipstream.data.inputs import Array
from slipstream.models.inputs import LINEAR
from slipstream.skip.accesses import Accesses, Reader
from slipstream.skip.chance import uniform
from slipstream.tables.sizes import budget_bytes
from slipstream.tables.spec import Layout

_AT_ONCE = 1 << 16


class Hot:
    """Which rows are hot, and which inputs access hot rows only.

    Args:
        reader: Reads the accesses of inputs.
        mask: Whether each row is hot.
        trained: The inputs of the part that are trained on.
    """

    def __init__(self, reader: Reader, mask: Array, trained: range) -> None:
        self._reader, self.mask, self._trained = reader, mask, trained
        self._cold = (~mask).astype(np.float32)

    @cached_property
    def rows(self) -> Array:
        """The hot rows."""
        return np.flatnonzero(self.mask)

    @cached_property
    def digest(self) -> str:
        """Another one for other rows."""
        return hashlib.sha256(np.packbits(self.mask).tobytes()).hexdigest()

    @property
    def nbytes(self) -> int:
        """Memory of what is known of rows and inputs."""
        return self.mask.nbytes + self._cold.nbytes + len(self._trained)

    def of(self, accesses: Accesses) -> Array:
        """Whether each of these inputs is hot: all of its rows are."""
        return accesses.largest(self._cold) <= 0

    def __call__(self, numbers: Array) -> Array:
        """Whether each input of these numbers is hot."""
        return np.asarray(self.inputs[numbers - self._trained.start])

    @cached_property
    def inputs(self) -> Array:
        """Whether each of the inputs that are trained on is hot."""
        first, last = self._trained.start, self._trained.stop
        blocks = [np.arange(k, min(k + _AT_ONCE, last)) for k in range(first, last, _AT_ONCE)]
        return np.concatenate(
            [np.empty(0, dtype=bool), *(self.of(self._reader.read(one)) for one in blocks)]
        )


def hot_rows(reader: Reader, layout: Layout, keys: Skip, seed: int, trained: range) -> Hot:
    """The most accessed rows of all tables that a budget holds, by a sample drawn with replacement.

    A row counts as its elements alone, as published: 4 bytes each.

    Args:
        reader: Reads the accesses of inputs.
        layout: The model's tables.
        keys: `hot_sample`, `hot_memory` and `h_f` count.
        seed: Of the sample.
        trained: The inputs of the part that are trained on; others are not counted.
    """
    n = len(trained)
    draws = np.arange(round(keys.hot_sample * n))
    numbers = trained.start + (uniform(seed, "hot", draws) * n).astype(np.int64).clip(max=n - 1)
    counts = np.zeros(reader.rows, dtype=np.uint32)
    for first in range(0, len(numbers), _AT_ONCE):
        reader.read(np.sort(numbers[first : first + _AT_ONCE])).count(counts)
    found = np.flatnonzero(counts >= (keys.h_f or 1))
    best = found[np.argsort(-counts[found].astype(np.int64), kind="stable")]
    sizes = np.array([4 * layout.table(name).dim for name in reader.names])
    fits = np.cumsum(sizes[reader.table_of(best)]) <= hot_bytes(keys, layout)
    mask = np.zeros(reader.rows, dtype=bool)
    mask[best[fits]] = True
    return Hot(reader, mask, trained)


def hot_bytes(keys: Skip, layout: Layout) -> int:
    """What hot rows may take; a share is one of rows, whatever state an optimizer keeps for them.

    Args:
        keys: `hot_memory` counts.
        layout: The model's tables.
    """
    return budget_bytes(keys.hot_memory, layout, whole=_elements)


def _elements(layout: Layout) -> int:
    tables = (table for table in layout.tables if not table.name.endswith(LINEAR))
    return sum(4 * table.rows * table.dim for table in tables)
