"""The rows of a model in order of how often they are accessed for the memory that they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from slipstream.arrays import Array
from slipstream.models.inputs import LINEAR
from slipstream.tables.sizes import row_bytes
from slipstream.tables.spec import Layout

_FEW = 1 << 16  # accesses up to which rows are counted without sorting them


def accesses_of(layout: Layout, counts: Callable[[str], Array]) -> list[Array]:
    """The accesses of each row of each group, from those of each row of a table of the data."""
    return [
        np.concatenate([counts(table.name.removesuffix(LINEAR)) for table in group.tables])
        for group in layout.groups
    ]


@dataclass(frozen=True)
class Popularity:
    """Rows by accesses a byte, the most accessed first; among equals the first rows first.

    Args:
        accesses: Of each row of each group; below 0 the row is left out.
        sizes: Bytes of a row of each group, optimizer state counted.

    Example:
        >>> rows = Popularity([np.array([60, 30, 6, 4])], [8])
        >>> rows.coverage(16), rows.bytes_for(0.95)
        (0.9, 24)
    """

    accesses: Sequence[Array]
    sizes: Sequence[int]

    @classmethod
    def of(cls, layout: Layout, counts: Callable[[str], Array]) -> Popularity:
        """That of a model's rows, from the accesses of each row of a table of the data."""
        return cls(accesses_of(layout, counts), row_bytes(layout))

    @property
    def bytes(self) -> int:
        """Memory of all rows."""
        return sum(
            len(accesses) * size for accesses, size in zip(self.accesses, self.sizes, strict=True)
        )

    @cached_property
    def total(self) -> int:
        """All accesses."""
        return int((self.levels.accesses * self.levels.rows).sum())

    @cached_property
    def levels(self) -> AccessLevels:
        """Rows with equal accesses in one group, the best first."""
        columns = [
            np.stack([np.full(len(n), group), n, np.full(len(n), self.sizes[group]), rows])
            for group, (n, rows) in enumerate(map(_histogram, self.accesses))
        ]
        levels = np.concatenate(columns, axis=1)
        order = np.argsort(-levels[1] / levels[2], kind="stable")
        return AccessLevels(*levels[:, order])

    @cached_property
    def _ends(self) -> tuple[Array, Array]:
        """Bytes and accesses up to the end of each level, from 0 before the first."""
        _, accesses, size, rows = self.levels
        both = np.cumsum(np.stack([size * rows, accesses * rows]), axis=1)
        ends = np.concatenate([np.zeros((2, 1), dtype=both.dtype), both], axis=1)
        return ends[0], ends[1]

    def coverage(self, budget: float) -> float:
        """The share of accesses taken by the best rows that so many bytes hold."""
        whole, extra_rows = self._fitting(budget)
        accesses = int(self._ends[1][whole])
        if extra_rows:
            accesses += extra_rows * int(self.levels.accesses[whole])
        return accesses / self.total if self.total else 0.0

    def bytes_for(self, share: float) -> int:
        """The fewest bytes of best rows that take at least this share of accesses."""
        bytes_, accesses = self._ends
        wanted = int(np.ceil(share * self.total - 1e-9 * max(1, self.total)))
        level = int(np.searchsorted(accesses, wanted)) - 1
        if level < 0:
            return 0
        missing = wanted - int(accesses[level])
        rows = -(-missing // int(self.levels.accesses[level]))
        return int(bytes_[level]) + rows * int(self.levels.size[level])

    def hot(self, budget: float) -> list[Array]:
        """For each group whether a row is among the best that so many bytes hold."""
        return self.first(*self._fitting(budget))

    def first(self, whole: int, extra_rows: int = 0) -> list[Array]:
        """For each group whether a row is in the first levels, or among some rows of the next."""
        group, accesses, _, _ = self.levels
        masks = []
        for number, row_accesses in enumerate(self.accesses):
            own_levels = accesses[:whole][group[:whole] == number]
            masks.append(
                row_accesses >= own_levels.min()
                if len(own_levels)
                else np.zeros(len(row_accesses), bool)
            )
        if extra_rows:
            (equal,) = np.nonzero(self.accesses[group[whole]] == accesses[whole])
            masks[group[whole]][equal[:extra_rows]] = True
        return masks

    def level_of(self) -> list[Array]:
        """For each group the number of each row's level; of rows that are all counted."""
        levels_of_rows = []
        for number, row_accesses in enumerate(self.accesses):
            (own_levels,) = np.nonzero(self.levels.group == number)
            rising = own_levels[::-1]  # within a group, fewer accesses are a later level
            places = np.searchsorted(self.levels.accesses[rising], row_accesses)
            levels_of_rows.append(rising[places].astype(np.int32))
        return levels_of_rows

    def _fitting(self, budget: float) -> tuple[int, int]:
        """How many whole levels fit, and how many rows of the next one."""
        ends = self._ends[0]
        whole = int(np.searchsorted(ends, budget, side="right")) - 1
        if whole < 0 or whole == len(ends) - 1:
            return max(0, whole), 0
        return whole, int((budget - ends[whole]) // int(self.levels.size[whole]))


class AccessLevels(NamedTuple):
    """Rows by level, the best level first: rows of a level have equal accesses in one group."""

    group: Array  # of each level
    accesses: Array  # of each of its rows
    size: Array  # bytes of a row
    rows: Array  # how many rows there are


def _histogram(accesses: Array) -> tuple[Array, Array]:
    """As `np.unique` with counts, without those below 0, and without sorting the many small."""
    small = accesses[(accesses >= 0) & (accesses < _FEW)]
    rows = np.bincount(small, minlength=1)
    (few,) = np.nonzero(rows)
    many, how_many = np.unique(accesses[accesses >= _FEW], return_counts=True)
    return np.concatenate([few, many]), np.concatenate([rows[few], how_many])
