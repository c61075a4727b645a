"""Opens the files of a log: what fields they have, and their rows block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import polars as pl

from slipstream.data.formats.spec import LogSpec
from slipstream.data.prepare import values
from slipstream.data.prepare.lines import Rows, cut, header_fields
from slipstream.data.prepare.streams import Block, blocks, first_line, without_mark
from slipstream.data.schema import ValueKind
from slipstream.errors import DataError

_PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class Piece:
    """Some rows of a file, not yet cut into fields.

    Args:
        file: The number of the file.
        content: A block of text, or a frame of a Parquet file.
        start: Where it begins: a byte of the text, or a row.
        stop: Where the next one begins.
        line: The number of its first line or row, from 1.
        next_line: That of the next piece.
        share: How much of the file is read with it, from 0 to 1.
    """

    file: int
    content: Block | pl.DataFrame
    start: int
    stop: int
    line: int
    next_line: int
    share: float


def is_parquet(path: Path) -> bool:
    """Whether a file is of Parquet rather than of text."""
    return path.suffix in _PARQUET


def separator_of(spec: LogSpec, path: Path) -> str:
    """What stands between two fields of a file."""
    if spec.separator is not None:
        return spec.separator
    return "\t" if ".tsv" in path.suffixes or ".tab" in path.suffixes else ","


class Source:
    """The files of a log.

    Args:
        spec: What the log looks like.
        inputs: The files, in the order of time.
        block: Bytes of text to read at once.
    """

    def __init__(self, spec: LogSpec, inputs: list[Path], block: int) -> None:
        self.spec, self.inputs, self.block = spec, inputs, block
        for path in inputs:
            if not path.is_file():
                what = "is a folder" if path.is_dir() else "does not exist"
                raise DataError(f"{path} {what}. Name the files of the log.")
        self.starts = [0] * len(inputs)
        self.names: list[tuple[str, ...]] = []
        for number, path in enumerate(inputs):
            self.names.append(self._fields(number, path))
            self._check_names(number)

    def _fields(self, number: int, path: Path) -> tuple[str, ...]:
        if self.is_parquet(number):
            return tuple(self._parquet_types(number))
        line, second = first_line(path)
        if self.spec.fields is not None:
            return self.spec.fields
        names = header_fields(line, path, self.separator(number), self.spec.quotes)
        if self.spec.header is not None and names != self.spec.header:
            raise DataError(
                f"{path}, line 1: the header of {self.spec.format} logs is "
                f"{','.join(self.spec.header)!r}, here it is {line[:80].decode()!r}."
            )
        self.starts[number] = second
        return names

    def _check_names(self, number: int) -> None:
        names, path = self.names[number], self.inputs[number]
        for name in self.spec.used:
            if name not in names:
                near = get_close_matches(name, names, n=1)
                hint = f" Did you mean {near[0]!r}?" if near else f" It has {', '.join(names)}."
                raise DataError(f"{path} has no column {name!r}, which the schema names.{hint}")
            if names.count(name) > 1:
                raise DataError(f"{path} has more than one column {name!r}.")

    def is_parquet(self, number: int) -> bool:
        """Whether a file is of Parquet rather than of text."""
        return is_parquet(self.inputs[number])

    def separator(self, number: int) -> str:
        """What stands between two fields of a file."""
        return separator_of(self.spec, self.inputs[number])

    def kinds(self) -> dict[str, ValueKind]:
        """The kind of values of each table."""
        kinds: dict[str, ValueKind] = {}
        for column in self.spec.columns:
            kind: ValueKind = "text"
            if column.values == "hour":
                kind = "int"
            elif column.values is not None:
                kind = column.values
            elif self.is_parquet(0):
                dtype = self._parquet_types(0)[column.field]
                inner = dtype.inner if isinstance(dtype, pl.List) else dtype
                try:
                    assert isinstance(inner, pl.DataType)
                    kind = values.key_values(inner)
                except DataError as error:
                    raise DataError(f"{self.inputs[0]}: column {column.field!r} {error}.") from None
            if kinds.setdefault(column.table, kind) != kind:
                raise DataError(
                    f"Table {column.table!r} would mix {kinds[column.table]} and {kind} values: "
                    f"give column {column.name!r} a table of its own or the same kind of values."
                )
        return kinds

    def pieces(self, file: int, start: int, line: int) -> Iterator[Piece]:
        """The rows from a place on to the end of the log."""
        for number in range(file, len(self.inputs)):
            begin, first = (start, line) if number == file else (0, 1)
            if begin == 0:
                begin = self.starts[number]
                first = 1 if self.spec.fields is not None or self.is_parquet(number) else 2
            rows = first - 1
            made = self._frames if self.is_parquet(number) else self._blocks
            for piece in made(number, begin, first):
                rows = piece.next_line
                yield piece
            if rows <= (1 if self.starts[number] else 0):
                raise DataError(f"{self.inputs[number]} has a header and no rows.")

    def _blocks(self, number: int, start: int, line: int) -> Iterator[Piece]:
        path = self.inputs[number]
        size = path.stat().st_size
        for block in blocks(
            path, number, self.block, start=start, line=line, quotes=self.spec.quotes
        ):
            lines = block.data.count(b"\n") + (not block.data.endswith(b"\n"))
            yield Piece(
                number,
                block,
                block.start,
                block.stop,
                block.line,
                block.line + lines,
                block.consumed / max(1, size),
            )

    def _frames(self, number: int, start: int, _: int) -> Iterator[Piece]:
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
                yield Piece(number, frame, begin, stop, begin + 1, stop + 1, stop / total)
        except pl.exceptions.PolarsError as error:
            raise DataError(f"{path} is not a Parquet file that can be read: {error}") from None

    def _parquet_types(self, number: int) -> dict[str, pl.DataType]:
        path = self.inputs[number]
        try:
            return dict(pl.read_parquet_schema(path))
        except Exception as error:
            raise DataError(f"{path} is not a Parquet file that can be read: {error}") from None

    def rows(self, piece: Piece) -> Rows:
        """The rows of a piece, cut into fields."""
        if isinstance(piece.content, pl.DataFrame):
            lines = np.arange(piece.line, piece.next_line)
            return Rows(piece.content, lines, [], len(lines))
        return cut(
            without_mark(piece.content),
            piece.line,
            piece.file,
            self.names[piece.file],
            self.separator(piece.file),
            self.spec.quotes,
        )
