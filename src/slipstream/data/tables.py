"""Takes the columns of a Polars or Arrow table for `from_arrays`; imports neither."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from slipstream.arrays import Array
from slipstream.data.build import Lists, from_arrays
from slipstream.data.dataset import Dataset
from slipstream.data.schema import Kind
from slipstream.errors import DataError, did_you_mean


def from_table(
    table: Any,
    *,
    label: str,
    columns: Sequence[str],
    dense: Sequence[str] = (),
    lists: Mapping[str, Kind] | None = None,
    weight: str | None = None,
    time: str | None = None,
    **options: Any,
) -> Dataset:
    """Build a data set from a Polars data frame or an Arrow table, one row for each example.

    Args:
        table: The table; nulls in its columns are missing values.
        label: The column with the label.
        columns: The columns with a single raw value for each example.
        dense: The columns with dense values.
        lists: The columns with lists of raw values, and how each is used: sum, mean or sequence.
        weight: The column with weights.
        time: The column with times, as whole numbers.
        options: Passed on to `from_arrays`.

    Example:
        >>> len(from_table(frame, label="click", columns=["user", "ad"]).train)
        2
    """
    names = list(getattr(table, "column_names", None) or table.columns)

    def take(name: str) -> Any:
        if name not in names:
            raise DataError(f"The table has no column {name!r}.{did_you_mean(name, names)}")
        return table[name]

    values: dict[str, Array | Lists] = {name: _values(take(name)) for name in columns}
    for name, kind in (lists or {}).items():
        values[name] = Lists.of(_without_nulls(name, take(name)), kind)
    return from_arrays(
        labels=_plain(take(label)),
        columns=values,
        dense={name: _plain(take(name)) for name in dense},
        weights=_plain(take(weight)) if weight else None,
        times=_plain(take(time)) if time else None,
        label=label,
        **options,
    )


def _plain(column: Any) -> Array:
    return np.asarray(column.to_numpy())


def _values(column: Any) -> Array:
    """The values of a column: numbers as they are, strings and nulls as objects."""
    if _has_nulls(column):
        return np.array(_to_list(column), dtype=object)
    array = _plain(column)
    return array if array.dtype.kind in "biu" else np.array(_to_list(column), dtype=object)


def _without_nulls(name: str, column: Any) -> list[Any]:
    lists = _to_list(column)
    for row, values in enumerate(lists):
        if values is None:
            raise DataError(f"Column {name!r} has no list in row {row}; an empty list is fine.")
    return lists


def _has_nulls(column: Any) -> bool:
    count = column.null_count
    return bool(count() if callable(count) else count)


def _to_list(column: Any) -> list[Any]:
    as_list = getattr(column, "to_pylist", None) or column.to_list
    result: list[Any] = as_list()
    return result
