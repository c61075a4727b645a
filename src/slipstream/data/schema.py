"""What the examples of a data set consist of: the label, dense values, columns and their tables."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import msgspec
import numpy as np

from slipstream.errors import DataError, did_you_mean

POOLING_NAMES = ["sum", "mean", "max"]
"""How the vectors of a list are combined; each name has a file in `tables/pooling/`."""

Kind = str
"""`single`, `sequence` (kept step by step), or the name of a pooling."""
ValueKind = Literal["hex", "int", "text"]
INT32_ROWS = 2**31


@dataclass(frozen=True)
class Table:
    """One embedding table; its ids are popularity ranks in the training part.

    Args:
        name: The table's name.
        rows: How many ids there are; every id is below it.
        unseen: The id that every value not seen (often enough) in training shares.
        missing: The id of the missing value, if the log has missing values here.
        values: How the raw values are stored: 8 hex digits, whole numbers, or text;
            None if they are not stored (ids were given, or come from a hash).
        buckets: How many ids are hashed buckets, which several values share.
        hashed: The kind of raw values, where they are not stored but only hashed to buckets.
        ranked: Whether ids are popularity ranks of this data set's training part; not so where
            they were reused from another data set.
    """

    name: str
    rows: int
    unseen: int
    missing: int | None = None
    values: ValueKind | None = None
    buckets: int = 0
    hashed: ValueKind | None = None
    ranked: bool = True

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise DataError(f"Table {self.name!r} has {self.rows} rows; it needs at least one.")
        for role, row in (("unseen", self.unseen), ("missing", self.missing)):
            if row is not None and not 0 <= row < self.rows:
                raise DataError(
                    f"Table {self.name!r} has {self.rows} rows, but its {role} id is {row}."
                )
        if self.values is not None and self.values not in get_args(ValueKind):
            raise DataError(f"Table {self.name!r} has values of unknown kind {self.values!r}.")

    @property
    def id_dtype(self) -> np.dtype[Any]:
        """The narrowest of int32 and int64 that holds every id."""
        return np.dtype(np.int32 if self.rows <= INT32_ROWS else np.int64)


@dataclass(frozen=True)
class Column:
    """One categorical feature: a single id, a pooled list (sum, mean), or a sequence kept whole."""

    name: str
    table: str
    kind: Kind = "single"


@dataclass(frozen=True)
class Schema:
    """The names and kinds of everything an example has.

    Example:
        >>> schema = Schema(
        ...     tables=(Table("item", rows=100, unseen=99),),
        ...     columns=(Column("target", "item"), Column("history", "item", "sequence")),
        ...     dense=("price",),
        ... )
        >>> [column.name for column in schema.lists]
        ['history']
    """

    tables: tuple[Table, ...]
    columns: tuple[Column, ...]
    dense: tuple[str, ...] = ()
    label: str = "label"
    weights: bool = False
    times: bool = False

    def __post_init__(self) -> None:
        _unique("table", [table.name for table in self.tables])
        _unique("column", [self.label, *self.dense, *(column.name for column in self.columns)])
        known = {table.name for table in self.tables}
        for column in self.columns:
            if column.table not in known:
                raise DataError(
                    f"Column {column.name!r} uses table {column.table!r}, which is not defined."
                )
            if column.kind not in ("single", *list_kinds()):
                raise DataError(
                    f"Column {column.name!r} is of kind {column.kind!r}; "
                    f"choose one of {', '.join(('single', *list_kinds()))}."
                )
        unused = known - {column.table for column in self.columns}
        if unused:
            raise DataError(f"No column uses table {sorted(unused)[0]!r}.")

    def table(self, name: str) -> Table:
        """The table of that name."""
        for table in self.tables:
            if table.name == name:
                return table
        names = [table.name for table in self.tables]
        raise DataError(f"There is no table {name!r}.{did_you_mean(name, names)}")

    @property
    def singles(self) -> tuple[Column, ...]:
        """The columns with one id for each example, in the order of the block of ids."""
        return tuple(column for column in self.columns if column.kind == "single")

    @property
    def lists(self) -> tuple[Column, ...]:
        """The columns with any number of ids for each example."""
        return tuple(column for column in self.columns if column.kind != "single")

    @property
    def id_dtype(self) -> np.dtype[Any]:
        """The dtype of the block of single ids: int32 unless one of its tables needs more."""
        wide = any(self.table(column.table).rows > INT32_ROWS for column in self.singles)
        return np.dtype(np.int64 if wide else np.int32)

    def to_json(self) -> dict[str, Any]:
        """The schema as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Schema:
        """The schema of such values."""
        return msgspec.convert(values, cls)


def _unique(noun: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if not name:
            raise DataError(f"A {noun} has an empty name.")
        if name in seen:
            raise DataError(f"The name {name!r} is used for more than one {noun}.")
        seen.add(name)


def list_kinds() -> tuple[str, ...]:
    """The kinds of list columns."""
    return (*POOLING_NAMES, "sequence")
