"""What a raw log looks like: the one description that every format comes down to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from slipstream.data.schema import Kind

Values = Literal["hex", "int", "text", "hour"]
Transform = Literal["log", "none", "signed-log", "sqrt"]
TRANSFORMS = ("log", "none", "signed-log", "sqrt")


@dataclass(frozen=True)
class Dense:
    """A dense column.

    Args:
        name: The name of its field in the log.
        transform: `log` is log(x+1), with negative values taken as 0; `signed-log` is
            sign(x) log(|x|+1); `sqrt` is sqrt(x), with negative values taken as 0; `none` keeps x.
        missing: What stands in the data set where the log has no value.
    """

    name: str
    transform: Transform = "log"
    missing: float = 0.0


@dataclass(frozen=True)
class Categorical:
    """A column of raw values.

    Args:
        name: Its name in the data set.
        field: The name of its field in the log.
        table: The table that it shares or has for itself.
        values: `hex` (8 digits), `int`, `text`, or `hour` (the hour of the time of day); None
            takes the type of the Parquet column, and text elsewhere.
        kind: single, sum, mean or sequence.
        split: What stands between the values of a list in a text file.
    """

    name: str
    field: str
    table: str
    values: Values | None = None
    kind: Kind = "single"
    split: str | None = None


@dataclass(frozen=True)
class Time:
    """The time of an input: `unix`, `unix_ms`, or how it is written, such as `%Y-%m-%d %H:%M`."""

    field: str
    format: str = "unix"


@dataclass(frozen=True)
class Negatives:
    """Inputs that did not happen, for logs that hold clicks only.

    Args:
        per_positive: How many to make for each input of the log.
        columns: The columns that are replaced, together, by those of another input.
        seed: Of the draws.
    """

    per_positive: int
    columns: tuple[str, ...]
    seed: int = 0


@dataclass(frozen=True)
class History:
    """What the user in the column `user` did in at most `length` examples before.

    `columns` names the columns whose earlier values are kept, and the history made of each.
    """

    user: str
    length: int
    columns: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LogSpec:
    """A raw log: which fields it has and what becomes of them.

    Args:
        format: The name of the format.
        columns: The categorical columns, in the order of the data set.
        dense: The dense columns.
        label: The field of the label; None where every row is a click.
        label_name: What the data set calls the label.
        time: The time of a row, if it has one.
        weight: The field of the weight, if there is one.
        fields: The names of the fields where the file has no header; None where it has one.
        header: The header that the file must have, if only one will do.
        separator: Between two fields; None for Parquet, and to go by the name of the file.
        quotes: Whether fields may stand in double quotes.
        sort: Whether rows are sorted by time rather than required to be.
        negatives: Inputs to make that did not happen.
        history: What to keep of a user's earlier inputs.
    """

    format: str
    columns: tuple[Categorical, ...]
    dense: tuple[Dense, ...] = ()
    label: str | None = None
    label_name: str = "label"
    time: Time | None = None
    weight: str | None = None
    fields: tuple[str, ...] | None = None
    header: tuple[str, ...] | None = None
    separator: str | None = None
    quotes: bool = False
    sort: bool = False
    negatives: Negatives | None = None
    history: History | None = None

    @property
    def used(self) -> tuple[str, ...]:
        """The fields of the log that something is made of, each once."""
        names = [self.label, self.weight, self.time.field if self.time else None]
        names += [dense.name for dense in self.dense]
        names += [column.field for column in self.columns]
        return tuple(dict.fromkeys(name for name in names if name is not None))
