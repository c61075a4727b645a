"""Consecutive examples as arrays, in memory or mapped from the files of a shard."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from slipstream.arrays import Array
from slipstream.data.schema import Column, Schema
from slipstream.errors import DataError


@dataclass(frozen=True)
class Ragged:
    """Lists of different lengths: list i is `values[offsets[i]:offsets[i + 1]]`."""

    values: Array
    offsets: Array

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def whole(self) -> bool:
        """Whether the offsets rise from 0 to the number of values."""
        ends_right = self.offsets[0] == 0 and self.offsets[-1] == len(self.values)
        return bool(ends_right) and not np.any(np.diff(self.offsets) < 0)

    def slice(self, start: int, stop: int) -> Ragged:
        """Lists start to stop, without copying values."""
        first, last = self.offsets[start], self.offsets[stop]
        return Ragged(self.values[first:last], self.offsets[start : stop + 1] - first)


@dataclass(frozen=True)
class Examples:
    """Some examples: every array has one row for each of them.

    Args:
        labels: float32 `[n]`.
        ids: int32 or int64 `[n, single columns]`.
        dense: float32 `[n, dense values]`.
        lists: A `Ragged` for each list column.
        weights: float32 `[n]`, or None where every example weighs the same.
        times: int64 `[n]`, or None where the log has no times.
    """

    labels: Array
    ids: Array
    dense: Array
    lists: dict[str, Ragged] = field(default_factory=dict)
    weights: Array | None = None
    times: Array | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def fixed(self) -> dict[str, Array]:
        """The arrays that have a row of fixed width for each example, by name."""
        arrays = {"labels": self.labels, "ids": self.ids, "dense": self.dense}
        if self.weights is not None:
            arrays["weights"] = self.weights
        if self.times is not None:
            arrays["times"] = self.times
        return arrays

    def slice(self, start: int, stop: int) -> Examples:
        """Examples start to stop, as views."""
        return Examples(
            **{name: array[start:stop] for name, array in self.fixed().items()},
            lists={name: ragged.slice(start, stop) for name, ragged in self.lists.items()},
        )

    def check(self, schema: Schema) -> None:
        """Raise an error where the arrays do not fit the schema or each other."""
        n = len(self)
        expected: dict[str, tuple[int, ...]] = {
            "labels": (n,),
            "ids": (n, len(schema.singles)),
            "dense": (n, len(schema.dense)),
        }
        if schema.weights:
            expected["weights"] = (n,)
        if schema.times:
            expected["times"] = (n,)
        arrays = self.fixed()
        if arrays.keys() != expected.keys():
            raise DataError(
                f"The schema needs {', '.join(expected)}, but the examples have "
                f"{', '.join(arrays)}."
            )
        for name, shape in expected.items():
            if arrays[name].shape != shape:
                raise DataError(f"{name} has shape {arrays[name].shape} instead of {shape}.")
        names = [column.name for column in schema.lists]
        if sorted(self.lists) != sorted(names):
            raise DataError(
                f"The schema has list columns {names}, the examples have {sorted(self.lists)}."
            )
        for name, ragged in self.lists.items():
            if len(ragged) != n:
                raise DataError(f"List column {name!r} has {len(ragged)} lists for {n} examples.")
            if not ragged.whole:
                raise DataError(
                    f"The offsets of list column {name!r} must rise from 0 to the number of "
                    f"values, {len(ragged.values)}."
                )

    def ids_by_column(self, schema: Schema) -> Iterator[tuple[Column, Array, Array | int]]:
        """Each column with its ids one after the other, and how many of them each example has."""
        for place, column in enumerate(schema.singles):
            yield column, self.ids[:, place], 1
        for column in schema.lists:
            ragged = self.lists[column.name]
            yield column, ragged.values, np.diff(ragged.offsets)

    def check_ids(self, schema: Schema) -> None:
        """Raise an error where an id does not lie in its table."""
        for column, ids, _ in self.ids_by_column(schema):
            rows = schema.table(column.table).rows
            place = first_outside(ids, rows)
            if place is not None:
                raise DataError(
                    f"Column {column.name!r} has id {ids[place]} at position {place}, but its "
                    f"table has {rows} rows."
                )


def first_outside(ids: Array, rows: int) -> int | None:
    """The position of the first id that is not in [0, rows); None if all are."""
    if not len(ids) or (int(ids.min()) >= 0 and int(ids.max()) < rows):
        return None
    return int(np.flatnonzero((ids < 0) | (ids >= rows))[0])
