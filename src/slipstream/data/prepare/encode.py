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
from slipstream.data.prepare.source import LogPiece, Source, check_files, is_parquet, separator_of
from slipstream.data.prepare.streams import first_line
from slipstream.errors import DataError, did_you_mean

_BLOCK = 4 << 20


@dataclass(frozen=True)
class Encoded:
    """Consecutive rows of a log."""

    inputs: Examples  # the rows that could be read; their labels mean nothing
    good: Array  # for each row of the log whether it is among them
    bad: list[BadRow]  # the other rows


class RowEncoder:
    """Reads the rows of raw logs, in order, with the ids of an existing data set.

    Labels, weights and times are not read: a log may lack the label.

    Example:
        >>> encoder = RowEncoder(dataset, log_spec("criteo", {}), [path])  # doctest: +SKIP
        >>> for rows in encoder.blocks():  # doctest: +SKIP
        ...     print(rows.inputs.ids.shape)
    """

    def __init__(self, dataset: Dataset, spec: LogSpec, files: Sequence[str | Path]) -> None:
        self.dataset, self.schema = dataset, dataset.schema
        paths = [Path(path) for path in files]
        check_files(paths)
        _check(dataset, spec)
        self.spec = _as_in_file(_only_inputs(spec), spec.label, paths[0])
        self.source = Source(self.spec, paths, _BLOCK)
        tables = self.schema.tables
        self.encoders: dict[str, Encoder] = {t.name: dataset.encoder(t.name) for t in tables}
        kinds = {table.name: kind for table in tables if (kind := table.values or table.hashed)}
        self._parser = Parser(self.spec, paths, kinds)
        self._places = {c.name: f"c{number:03d}" for number, c in enumerate(self.spec.columns)}
        names = [column.name for column in self.spec.dense]
        self._dense = [names.index(name) for name in self.schema.dense]

    def blocks(self) -> Iterator[Encoded]:
        """The rows of all files, in order, some thousands at a time."""
        for _, rows in map_in_threads(self._rows, self.source.pieces(0, 0, 1)):
            yield rows

    def place(self, row: BadRow) -> str:
        """Where a bad row is: file, and line or row."""
        return self.source.place(row)

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
            encoded = self.encoders[column.table].ids(arrays[place], arrays[f"{place}.missing"])
            if column.kind == "single":
                ids[:, schema.singles.index(column)] = encoded
            else:
                offsets = np.concatenate([[0], np.cumsum(arrays[f"{place}.lengths"])])
                narrow = schema.table(column.table).id_dtype
                lists[column.name] = Ragged(encoded.astype(narrow), offsets.astype(np.int64))
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
    """Raise an error where a row of the log alone is not an example of the data set."""
    where = dataset.folder or "the data set"
    in_log = {column.name: column for column in spec.columns}
    histories = spec.history.columns.values() if spec.history else ()
    for column in dataset.schema.columns:
        if column.name not in in_log and column.name in histories:
            raise DataError(
                f"An input of {where} is made of several rows of a {spec.format} log: its column "
                f"{column.name!r} holds earlier rows of the same user, so that a row by itself "
                "cannot be predicted. Write the earlier values into each row and describe such a "
                f"file with a schema (format table) in which {column.name!r} is one of `lists`, "
                "of kind sequence."
            )
        if column.name not in in_log:
            raise DataError(
                f"{where} has a column {column.name!r}, which {spec.format} logs lack."
                f"{did_you_mean(column.name, in_log)}"
            )
        mine = in_log[column.name]
        if (mine.table, mine.kind) != (column.table, column.kind):
            raise DataError(
                f"Column {column.name!r} is {column.kind} with table {column.table!r} in {where}, "
                f"but {mine.kind} with table {mine.table!r} in the log. Use the schema that the "
                "data set was prepared with."
            )
    more = in_log.keys() - {column.name for column in dataset.schema.columns}
    dense = {column.name for column in spec.dense}
    different = sorted(more | (dense ^ set(dataset.schema.dense)))
    if different:
        raise DataError(
            f"{where} and the {spec.format} log differ in {different[0]!r}. Use the format and the "
            "schema that the data set was prepared with."
        )
    recorded = dataset.manifest.source.get("dense", {})
    for value in spec.dense:
        was = recorded.get(value.name, {})
        for key, now in (("transform", value.transform), ("missing", value.missing)):
            if was.get(key, now) != now:
                raise DataError(
                    f"{dataset.folder} was prepared with {key} {was[key]!r} of the dense value "
                    f"{value.name!r}, and the log would be read with {now!r}. Use the same schema."
                )


def _only_inputs(spec: LogSpec) -> LogSpec:
    """The log without the fields that prediction does not need: they may be absent."""
    time = spec.time if any(column.values == "hour" for column in spec.columns) else None
    return replace(
        spec, label=None, weight=None, time=time, sort=False, negatives=None, history=None
    )


def _as_in_file(spec: LogSpec, label: str | None, path: Path) -> LogSpec:
    """The log with or without its label, as the first file has it."""
    if label is None or is_parquet(path) or (spec.fields is None and spec.header is None):
        return spec
    line, _ = first_line(path, _BLOCK)
    names = header_fields(line, path, separator_of(spec, path), spec.quotes)
    if spec.fields is not None and label in spec.fields and len(names) == len(spec.fields) - 1:
        return replace(spec, fields=tuple(name for name in spec.fields if name != label))
    if spec.header is not None and label not in names:
        return replace(spec, header=tuple(name for name in spec.header if name != label))
    return spec
