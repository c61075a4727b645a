"""The columns, tables and table settings for which a model is built."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipstream.data.schema import Schema
from slipstream.errors import ConfigError, did_you_mean
from slipstream.tables.optimizers import RowOptimizer
from slipstream.tables.spec import Feature, Init, Layout, TableSpec

LINEAR = "/linear"
SETTINGS = ("dim", "optimizer", "storage", "init")
Statistics = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True)
class ModelInputs:
    """A data set as a model sees it."""

    schema: Schema
    lengths: Mapping[str, int]  # of each sequence column, in steps
    table_settings: Mapping[str, Any]  # of all tables: dim, optimizer, storage, init
    tables: Mapping[str, Mapping[str, Any]]  # by table; they override those of all tables
    statistics: Statistics | None = None  # mean and deviation of each dense value

    def __post_init__(self) -> None:
        if not self.schema.columns:
            raise ConfigError("The data set has no columns: there is nothing to embed.")
        sequences = [column.name for column in self.schema.columns if column.kind == "sequence"]
        for name, length in self.lengths.items():
            if name not in sequences:
                raise ConfigError(
                    f"A length is given for {name!r}, which is no sequence of the data set."
                    f"{did_you_mean(name, sequences) if sequences else ''}"
                )
            if not _is_size(length):
                raise ConfigError(
                    f"The length of {name!r} is {length!r}; it must be a whole number of at "
                    "least 1."
                )
        _check_settings("all tables", self.table_settings)
        for name, settings in self.tables.items():
            _check_settings(f"table {name!r}", settings)

    def layout(
        self, dim: int, init: Init, *, linear: bool = False, sequences: Collection[str] = ()
    ) -> Layout:
        """The embedding tables of a model and the features looked up in them.

        The columns come in the order of the schema; with `linear` they come once
        more, looked up in a table of single weights over the same ids.

        Args:
            dim: Elements of a row of tables that set no dim of their own.
            init: Initial rows of tables that set no init of their own.
            linear: Also make the tables of single weights.
            sequences: The columns to keep step by step; other sequences are pooled (mean).
        """
        tables = [self._table(table.name, table.rows, dim, init) for table in self.schema.tables]
        features = []
        for column in self.schema.columns:
            if column.name in sequences:
                length = self.lengths[column.name]
                features.append(Feature(column.name, column.table, "sequence", length))
            else:
                kind = "mean" if column.kind == "sequence" else column.kind
                features.append(Feature(column.name, column.table, kind))
        if linear:
            tables += [self._weights(table.name, table.rows) for table in self.schema.tables]
            features += [
                Feature(feature.column, feature.table + LINEAR, feature.kind)
                for feature in features
            ]
        names = [table.name for table in tables]
        for name in self.tables:
            if name not in names:
                raise ConfigError(f"The model has no table {name!r}.{did_you_mean(name, names)}")
        return Layout(tuple(tables), tuple(features))

    def _table(self, name: str, rows: int, dim: int, init: Init) -> TableSpec:
        settings = {"dim": dim, "init": init, **self.table_settings, **self.tables.get(name, {})}
        return TableSpec(name, rows, **settings)

    def _weights(self, name: str, rows: int) -> TableSpec:
        """A table of linear weights: one element a row, initially zero by default."""
        name += LINEAR
        settings = self.tables.get(name, {})
        if settings.get("dim", 1) != 1:
            raise ConfigError(f"Table {name!r} holds single weights; its dim is always 1.")
        shared = {key: value for key, value in self.table_settings.items() if key != "init"}
        return TableSpec(name, rows, **{"init": Init("zeros"), **shared, **settings, "dim": 1})


def _check_settings(where: str, settings: Mapping[str, Any]) -> None:
    for key, value in settings.items():
        if key not in SETTINGS:
            raise ConfigError(
                f"There is no setting {key!r} for {where}.{did_you_mean(key, SETTINGS)}"
            )
        if key == "dim" and not _is_size(value):
            raise ConfigError(f"dim of {where} is {value!r}; it must be a whole number, 1 or more.")
        kinds: dict[str, Any] = {"optimizer": RowOptimizer, "init": Init}
        if key in kinds and not isinstance(value, kinds[key]):
            raise ConfigError(f"{key} of {where} is {value!r}, which is not one: make it first.")


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
