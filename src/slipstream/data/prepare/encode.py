"""Raw rows as inputs of a data set that exists: the ids are those that `prepare` would give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from slipstream.arrays import Array
from slipstream.background import map_in_threads
from slipstream.data.dataset import Dataset
from slipstream.data.encoder import Encoder
from slipstream.data.formats.spec import LogSpec
from slipstream.data.inputs import Examples, Ragged
from slipstream.data.prepare.lines import BadRow, header_fields
from slipstream.data.prepare.parse import ParsedRows, Parser
from slipstream.data.prepare.source import LogPiece, Source, is_parquet, separator_of
from slipstream.data.prepare.streams import first_line
from slipstream.errors import DataError, did_you_mean

_BLOCK = 4 << 20


@dataclass(frozen=True)
class Encoded:
    """Some rows of a log, one after the other.

    Args:
        inputs: The rows that could be read. Labels mean nothing.
        good: For each row of the log whether it is among them.
        bad: The others.
    """

    inputs: Examples
    good: Array
    bad: list[BadRow]


class RowEncoder:
    """Reads raw logs row by row, with the dictionary of a data set.

    Labels, weights and times are not read: a log may lack the label. Rows keep their order.

    Args:
        dataset: The data set whose ids to give.
        spec: What the logs look like: see `slipstream.data.formats.log_spec`.
        files: The logs.

    Example:
        >>> encoder = RowEncoder(dataset, log_spec("criteo", {}), [path])  # doctest: +SKIP
        >>> for rows in encoder.blocks():  # doctest: +SKIP
        ...     print(rows.inputs.ids.shape)
    """

    def __init__(self, dataset: Dataset, spec: LogSpec, files: Sequence[str | Path]) -> None:
        self.dataset, self.schema = dataset, dataset.schema
        paths = [Path(path) for path in files]
        for path in paths:
            if not path.is_file():
                what = "is a folder" if path.is_dir() else "does not exist"
                raise DataError(f"{path} {what}. Name the files of the log.")
        _check(dataset, spec)
        self.spec = _as_in_file(_only_inputs(spec), spec.label, paths[0])
        self.source = Source(self.spec, paths, _BLOCK)
        tables = self.schema.tables
        self.encoders: dict[str, Encoder] = {t.name: dataset.encoder(t.name) for t in tables}
        kinds = {table.name: table.values or table.hashed for table in tables}
        known = {name: kind for name, kind in kinds.items() if kind is not None}
        self._parser = Parser(self.spec, paths, known)
        self._places = {c.name: f"c{number:03d}" for number, c in enumerate(self.spec.columns)}
        names = [one.name for one in self.spec.dense]
        self._dense = [names.index(name) for name in self.schema.dense]

    def blocks(self) -> Iterator[Encoded]:
        """The rows of all files, in order, some thousands at a time."""
        for _, rows in map_in_threads(self._rows, self.source.pieces(0, 0, 1)):
            yield rows

    def place(self, row: BadRow) -> str:
        """Where a bad row is: file, and line or row."""
        what = "row" if self.source.is_parquet(row.file) else "line"
        return f"{self.source.inputs[row.file]}, {what} {row.line}"

    def _rows(self, piece: LogPiece) -> Encoded:
        chunk = self._parser.parse(piece.file, self.source.rows(piece))
        lines = np.concatenate([chunk.lines, [row.line for row in chunk.bad]]).astype(np.int64)
        good = np.argsort(lines, kind="stable") < chunk.rows
        return Encoded(self._inputs(chunk), good, chunk.bad)

    def _inputs(self, chunk: ParsedRows) -> Examples:
        schema, n, arrays = self.schema, chunk.rows, chunk.arrays
        ids = np.empty((n, len(schema.singles)), dtype=schema.id_dtype)
        lists: dict[str, Ragged] = {}
        for column in schema.columns:
            place = self._places[column.name]
            found = self.encoders[column.table].ids(arrays[place], arrays[f"{place}.missing"])
            if column.kind == "single":
                ids[:, schema.singles.index(column)] = found
            else:
                offsets = np.concatenate([[0], np.cumsum(arrays[f"{place}.lengths"])])
                narrow = schema.table(column.table).id_dtype
                lists[column.name] = Ragged(found.astype(narrow), offsets.astype(np.int64))
        dense: Array = np.empty((n, 0), dtype=np.float32)
        if self._dense:
            dense = np.ascontiguousarray(arrays["dense"][:, self._dense])
        return Examples(
            labels=np.zeros(n, dtype=np.float32),
            ids=ids,
            dense=dense,
            lists=lists,
            weights=np.ones(n, dtype=np.float32) if schema.weights else None,
            times=np.zeros(n, dtype=np.int64) if schema.times else None,
        )


def _check(dataset: Dataset, spec: LogSpec) -> None:
    """Raise an error where inputs of the data set cannot be made of single rows of the log."""
    where = dataset.folder or "the data set"
    given = {column.name: column for column in spec.columns}
    made = set(spec.history.columns.values()) if spec.history else set()
    for column in dataset.schema.columns:
        if column.name not in given and column.name in made:
            raise DataError(
                f"An input of {where} is made of several rows of a {spec.format} log: its column "
                f"{column.name!r} holds earlier rows of the same user, so that a row by itself "
                "cannot be predicted. Write the earlier values into each row and describe such a "
                f"file with a schema (format table) in which {column.name!r} is one of `lists`, "
                "of kind sequence."
            )
        if column.name not in given:
            raise DataError(
                f"{where} has a column {column.name!r}, which {spec.format} logs lack."
                f"{did_you_mean(column.name, given)}"
            )
        mine = given[column.name]
        if (mine.table, mine.kind) != (column.table, column.kind):
            raise DataError(
                f"Column {column.name!r} is {column.kind} with table {column.table!r} in {where}, "
                f"but {mine.kind} with table {mine.table!r} in the log. Use the schema that the "
                "data set was prepared with."
            )
    more = given.keys() - {column.name for column in dataset.schema.columns}
    dense = {one.name for one in spec.dense}
    odd = sorted(more | (dense ^ set(dataset.schema.dense)))
    if odd:
        raise DataError(
            f"{where} and the {spec.format} log differ in {odd[0]!r}. Use the format and the "
            "schema that the data set was prepared with."
        )
    _check_transforms(dataset, spec)


def _check_transforms(dataset: Dataset, spec: LogSpec) -> None:
    recorded = dataset.manifest.source.get("dense", {})
    for one in spec.dense:
        was = recorded.get(one.name, {})
        for key, now in (("transform", one.transform), ("missing", one.missing)):
            if was.get(key, now) != now:
                raise DataError(
                    f"{dataset.folder} was prepared with {key} {was[key]!r} of the dense value "
                    f"{one.name!r}, and the log would be read with {now!r}. Use the same schema."
                )


def _only_inputs(spec: LogSpec) -> LogSpec:
    """The log without what prediction has no use for, so that it may be absent or anything."""
    hours = any(column.values == "hour" for column in spec.columns)
    return replace(
        spec,
        label=None,
        weight=None,
        time=spec.time if hours else None,
        sort=False,
        negatives=None,
        history=None,
    )


def _as_in_file(spec: LogSpec, label: str | None, path: Path) -> LogSpec:
    """The log with or without its label, as the first file has it."""
    if label is None or is_parquet(path) or (spec.fields is None and spec.header is None):
        return spec
    line, _ = first_line(path, _BLOCK)
    found = header_fields(line, path, separator_of(spec, path), spec.quotes)
    if spec.fields is not None and label in spec.fields and len(found) == len(spec.fields) - 1:
        return replace(spec, fields=tuple(name for name in spec.fields if name != label))
    if spec.header is not None and label not in found:
        return replace(spec, header=tuple(name for name in spec.header if name != label))
    return spec
