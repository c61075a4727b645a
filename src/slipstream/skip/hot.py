"""The hot rows by a sample of accesses (FAE's, as Slipstream was published), and hot examples."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Annotated

import numpy as np

from slipstream.arrays import Array
from slipstream.config.kinds import Count, Positive, Size, about
from slipstream.config.section import Settings
from slipstream.models.inputs import LINEAR
from slipstream.skip.accesses import Accesses, AccessReader
from slipstream.skip.chance import uniform
from slipstream.tables.sizes import budget_bytes
from slipstream.tables.spec import Layout

_AT_ONCE = 1 << 16  # examples


class HotOptions(Settings, frozen=True, kw_only=True):
    """Which rows are hot: the options of every rule that uses them, and of order `cold-first`."""

    hot_memory: Annotated[
        Size,
        about(
            "What hot rows may take, 4 bytes an element: bytes, or a share of all rows",
            "a size such as 256MiB, or a share such as 5%",
        ),
    ] = "256MiB"
    hot_sample: Annotated[
        Positive, about("Share of examples, drawn with replacement, in which accesses are counted")
    ] = 0.05
    h_f: Annotated[Count, about("Accesses in that sample from which a row may be hot")] = 1


class HotRows:
    """Which rows are hot, and which of the examples that are trained on access hot rows only."""

    def __init__(self, reader: AccessReader, mask: Array, trained: range) -> None:
        self._reader, self.mask, self._trained = reader, mask, trained
        self._cold = (~mask).astype(np.float32)

    @cached_property
    def rows(self) -> Array:
        """The hot rows."""
        return np.flatnonzero(self.mask)

    @cached_property
    def digest(self) -> str:
        """A short text that differs for other rows."""
        return hashlib.sha256(np.packbits(self.mask).tobytes()).hexdigest()

    def of(self, accesses: Accesses) -> Array:
        """Whether each of these examples is hot: all of its rows are."""
        return accesses.largest(self._cold) <= 0

    def __call__(self, numbers: Array) -> Array:
        """Whether each example of these numbers is hot."""
        return np.asarray(self.examples[numbers - self._trained.start])

    @cached_property
    def examples(self) -> Array:
        """Whether each of the examples that are trained on is hot."""
        blocks = [np.empty(0, dtype=bool)]
        for first in range(self._trained.start, self._trained.stop, _AT_ONCE):
            numbers = np.arange(first, min(first + _AT_ONCE, self._trained.stop))
            blocks.append(self.of(self._reader.read(numbers)))
        return np.concatenate(blocks)


def hot_rows(
    reader: AccessReader, layout: Layout, options: HotOptions, seed: int, trained: range
) -> HotRows:
    """The most accessed rows of all tables that a budget holds, by a sample drawn with replacement.

    A row counts as its elements alone, as published: 4 bytes each. Accesses are counted in examples
    that are trained on.
    """
    n = len(trained)
    draws = np.arange(round(options.hot_sample * n))
    numbers = trained.start + (uniform(seed, "hot", draws) * n).astype(np.int64).clip(max=n - 1)
    counts = np.zeros(reader.rows, dtype=np.uint32)
    for first in range(0, len(numbers), _AT_ONCE):
        reader.read(np.sort(numbers[first : first + _AT_ONCE])).count(counts)
    accessed = np.flatnonzero(counts >= options.h_f)
    best = accessed[np.argsort(-counts[accessed].astype(np.int64), kind="stable")]
    sizes = np.array([4 * layout.table(name).dim for name in reader.names])
    fits = np.cumsum(sizes[reader.table_of(best)]) <= hot_bytes(options, layout)
    mask = np.zeros(reader.rows, dtype=bool)
    mask[best[fits]] = True
    return HotRows(reader, mask, trained)


def hot_bytes(options: HotOptions, layout: Layout) -> int:
    """The budget of hot rows; a share of rows leaves out the state of an optimizer."""
    return budget_bytes(options.hot_memory, layout, whole=_elements)


def _elements(layout: Layout) -> int:
    tables = (table for table in layout.tables if not table.name.endswith(LINEAR))
    return sum(4 * table.rows * table.dim for table in tables)
