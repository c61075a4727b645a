"""Opens the files of a log: what fields they have, and their rows block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from slipstream.data.formats.spec import Categorical, LogSpec
from slipstream.data.prepare import values
from slipstream.data.prepare.lines import BadRow, Rows, cut, header_fields
from slipstream.data.prepare.streams import Block, blocks, first_line, without_mark
from slipstream.data.schema import ValueKind
from slipstream.errors import DataError, did_you_mean

_PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class LogPiece:
    """Some rows of a file, not yet cut into fields."""

    file: int  # the number of the file
    content: Block | pl.DataFrame  # a block of text, or rows of a Parquet file
    start: int  # a byte of the text, or a row
    stop: int  # where the next piece begins
    line: int  # the number of its first line or row, from 1
    next_line: int  # that of the next piece
    share: float  # of the file that is read with it, from 0 to 1


def is_parquet(path: Path) -> bool:
    """Whether a file is of Parquet rather than of text."""
    return path.suffix.lower() in _PARQUET


def check_files(paths: list[Path]) -> None:
    """Raise an error where a path is no file."""
    for path in paths:
        if not path.is_file():
            problem = "is a folder" if path.is_dir() else "does not exist"
            if path.exists() and not path.is_dir():
                problem = "is no file but a pipe or a device, which cannot be read twice"
            raise DataError(f"{path} {problem}. Name the files of the log.")


def separator_of(spec: LogSpec, path: Path) -> str:
    """The separator of the fields of a file."""
    if spec.separator is not None:
        return spec.separator
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return "\t" if ".tsv" in suffixes or ".tab" in suffixes else ","


class Source:
    """The files of a log in the order of time, read in blocks of `block` bytes of text."""

    def __init__(self, spec: LogSpec, inputs: list[Path], block: int) -> None:
        self.spec, self.inputs, self.block = spec, inputs, block
        check_files(inputs)
        self.starts = [0] * len(inputs)
        self.names: list[tuple[str, ...]] = []
        self.types: list[dict[str, pl.DataType]] = []  # of the columns of Parquet files
        for number, path in enumerate(inputs):
            self.types.append(_parquet_types(path) if self.is_parquet(number) else {})
            self.names.append(self._fields(number, path))
            self._check_names(number)

    def _fields(self, number: int, path: Path) -> tuple[str, ...]:
        if self.is_parquet(number):
            return tuple(self.types[number])
        line, second = first_line(path, self.block)
        if self.spec.fields is not None:
            return self.spec.fields
        names = header_fields(line, path, self.separator(number), self.spec.quotes)
        if self.spec.header is not None and names != self.spec.header:
            here = line[:80].decode(errors="replace")  # it may be cut within a letter
            raise DataError(
                f"{path}, line 1: the header of {self.spec.format} logs is "
                f"{','.join(self.spec.header)!r}, here it is {here!r}."
            )
        self.starts[number] = second
        return names

    def _check_names(self, number: int) -> None:
        names, path = self.names[number], self.inputs[number]
        for name in self.spec.used:
            if name not in names:
                hint = did_you_mean(name, names)
                raise DataError(f"{path} has no column {name!r}, which the schema names.{hint}")
            if names.count(name) > 1:
                raise DataError(f"{path} has more than one column {name!r}.")

    def is_parquet(self, number: int) -> bool:
        """Whether a file is of Parquet rather than of text."""
        return is_parquet(self.inputs[number])

    def place(self, row: BadRow) -> str:
        """The file of a bad row, and its line or row there."""
        unit = "row" if self.is_parquet(row.file) else "line"
        return f"{self.inputs[row.file]}, {unit} {row.line}"

    def separator(self, number: int) -> str:
        """The separator of the fields of a file."""
        return separator_of(self.spec, self.inputs[number])

    def kinds(self) -> dict[str, ValueKind]:
        """The kind of values of each table."""
        kinds: dict[str, ValueKind] = {}
        for column in self.spec.columns:
            kind = self._kind(column)
            if kinds.setdefault(column.table, kind) != kind:
                raise DataError(
                    f"Table {column.table!r} would mix {kinds[column.table]} and {kind} values: "
                    f"give column {column.name!r} a table of its own or the same kind of values."
                )
        return kinds

    def _kind(self, column: Categorical) -> ValueKind:
        """The kind of values of a column: as the spec names it, or the same in all files."""
        if column.values == "hour":
            return "int"
        if column.values is not None:
            return column.values
        kinds = [self._own_kind(number, column) for number in range(len(self.inputs))]
        for number, kind in enumerate(kinds):
            if kind != kinds[0]:
                here, first = (self._type(place, column.field) for place in (number, 0))
                raise DataError(
                    f"{self.inputs[number]}: column {column.field!r} is {here}, but in "
                    f"{self.inputs[0]} it is {first}. Make them the same, or choose with `values` "
                    "in the schema."
                )
        return kinds[0]

    def _own_kind(self, number: int, column: Categorical) -> ValueKind:
        if not self.is_parquet(number):
            return "text"
        dtype = self.types[number][column.field]
        inner = dtype.inner if isinstance(dtype, pl.List) else dtype
        try:
            assert isinstance(inner, pl.DataType)
            return values.key_values(inner)
        except DataError as error:
            raise DataError(f"{self.inputs[number]}: column {column.field!r} {error}.") from None

    def _type(self, number: int, field: str) -> str:
        return f"of type {self.types[number][field]}" if self.is_parquet(number) else "text"

    def no_rows(self, number: int) -> Rows | None:
        """No rows of a Parquet file, to check its types; None for a text file."""
        if not self.is_parquet(number):
            return None
        frame = pl.DataFrame(schema={name: self.types[number][name] for name in self.spec.used})
        frame = frame.with_columns(map(values.as_in_text, frame))
        return Rows(frame, np.arange(0), [], 0)

    def pieces(self, file: int, start: int, line: int) -> Iterator[LogPiece]:
        """The rows from a place on to the end of the log."""
        for number in range(file, len(self.inputs)):
            begin, first = (start, line) if number == file else (0, 1)
            if begin == 0:
                begin = self.starts[number]
                first = 1 if self.spec.fields is not None or self.is_parquet(number) else 2
            rows = first - 1
            pieces = self._frames if self.is_parquet(number) else self._blocks
            for piece in pieces(number, begin, first):
                rows = piece.next_line
                yield piece
            if rows <= (1 if self.starts[number] else 0):
                raise DataError(f"{self.inputs[number]} has a header and no rows.")

    def _blocks(self, number: int, start: int, line: int) -> Iterator[LogPiece]:
        path = self.inputs[number]
        size = path.stat().st_size
        rows = None
        if self.spec.quotes:
            rows = (self.separator(number).encode(), len(self.names[number]))
        for block in blocks(path, number, self.block, start=start, line=line, rows=rows):
            lines = block.data.count(b"\n") + (not block.data.endswith(b"\n"))
            stop, share = block.line + lines, block.consumed / max(1, size)
            yield LogPiece(number, block, block.start, block.stop, block.line, stop, share)

    def _frames(self, number: int, start: int, _: int) -> Iterator[LogPiece]:
        path = self.inputs[number]
        try:
            lazy = pl.scan_parquet(path, glob=False).select(self.spec.used)
            total = pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
            if total == 0:
                raise DataError(f"{path} has no rows.")
            rows = max(1024, self.block // (16 * max(1, len(self.spec.used))))
            # Slices of their own, because batches of one query hold whole row groups in memory.
            for begin in range(start, total, rows):
                frame = lazy.slice(begin, rows).collect()
                stop = begin + frame.height
                yield LogPiece(number, frame, begin, stop, begin + 1, stop + 1, stop / total)
        except pl.exceptions.PolarsError as error:
            raise DataError(f"{path} is not a Parquet file that can be read: {error}") from None

    def rows(self, piece: LogPiece) -> Rows:
        """The rows of a piece, cut into fields."""
        if isinstance(piece.content, pl.DataFrame):
            lines = np.arange(piece.line, piece.next_line)
            frame = piece.content.with_columns(map(values.as_in_text, piece.content))
            return Rows(frame, lines, [], len(lines))
        names, separator = self.names[piece.file], self.separator(piece.file)
        data = without_mark(piece.content)
        return cut(data, piece.line, piece.file, names, separator, self.spec.quotes)


def _parquet_types(path: Path) -> dict[str, pl.DataType]:
    try:
        return dict(pl.read_parquet_schema(path))
    except Exception as error:
        raise DataError(f"{path} is not a Parquet file that can be read: {error}") from None
