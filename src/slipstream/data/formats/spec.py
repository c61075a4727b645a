"""The description of a raw log, which every format returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from slipstream.data.schema import Kind

Values = Literal["hex", "int", "text", "hour"]
Transform = Literal["log", "none", "signed-log", "sqrt"]


@dataclass(frozen=True)
class Dense:
    """A dense column.

    `log` is log(x+1) and `sqrt` is sqrt(x), both with negative values taken as 0; `signed-log` is
    sign(x) log(|x|+1); `none` keeps x.
    """

    name: str  # of its field in the log
    transform: Transform = "log"
    missing: float = 0.0  # stands in the data set where the log has no value


@dataclass(frozen=True)
class Categorical:
    """A column of raw values."""

    name: str  # in the data set
    field: str  # in the log
    table: str  # its own, or one that it shares
    values: Values | None = None  # None: the type of the Parquet column, and text elsewhere
    kind: Kind = "single"
    split: str | None = None  # stands between the values of a list in a text file


@dataclass(frozen=True)
class Time:
    """The time of an example: `unix`, `unix_ms`, or as it is written, such as `%Y-%m-%d %H:%M`."""

    field: str
    format: str = "unix"


@dataclass(frozen=True)
class Negatives:
    """Examples that did not happen, for logs that hold clicks only."""

    per_positive: int  # how many to make for each example of the log
    columns: tuple[str, ...]  # are replaced, together, by those of another example
    seed: int = 0


@dataclass(frozen=True)
class History:
    """Earlier examples of the same user."""

    user: str  # the column that names the user
    length: int  # how many earlier examples to keep at most
    columns: dict[str, str] = field(default_factory=dict)  # the name of each column's history


@dataclass(frozen=True)
class LogSpec:
    """A raw log: its fields, and how they are used."""

    format: str
    columns: tuple[Categorical, ...]  # in the order of the data set
    dense: tuple[Dense, ...] = ()
    label: str | None = None  # its field; None where every row is a click
    label_name: str = "label"  # in the data set
    time: Time | None = None
    weight: str | None = None  # its field
    fields: tuple[str, ...] | None = None  # the names where the file has no header
    header: tuple[str, ...] | None = None  # the header, if only one will do
    separator: str | None = None  # None: for Parquet, and to choose by the name of the file
    quotes: bool = False  # whether fields may stand in double quotes
    sort: bool = False  # whether rows are sorted by time rather than required to be
    negatives: Negatives | None = None
    history: History | None = None

    @property
    def used(self) -> tuple[str, ...]:
        """The fields of the log that are read, each once."""
        names = [self.label, self.weight, self.time.field if self.time else None]
        names += [dense.name for dense in self.dense]
        names += [column.field for column in self.columns]
        return tuple(dict.fromkeys(name for name in names if name is not None))
