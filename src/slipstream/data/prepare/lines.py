"""Cuts a block of lines into fields: fast where every line is as it should be, else one by one.

Polars takes short lines and blank lines for nulls without a word and names no line for bad UTF-8,
so the block is checked at the level of bytes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from slipstream.arrays import Array
from slipstream.data.prepare.records import Record, has_quoted, layout, records
from slipstream.data.prepare.values import as_in_text
from slipstream.errors import DataError

_NEWLINE = 10
_BOM = b"\xef\xbb\xbf"
_ROWS = 2048
_SHOWN = 40
_CAPITALS = (b"+", b"A", b"B", b"C", b"D", b"E", b"F")


@dataclass(frozen=True)
class BadRow:
    """A row of a log that cannot be used."""

    file: int  # the number of the file
    line: int  # from 1; in a Parquet file, the number of the row
    reason: str  # a few words, the same for all rows with the same fault
    what: str  # a sentence about this row


@dataclass(frozen=True)
class Rows:
    """The rows of a block, cut into fields."""

    frame: pl.DataFrame  # a column of text for each field; of other types from Parquet
    lines: Array  # the line number of each row
    bad: list[BadRow]  # the rows that are not in the frame
    count: int  # of the block, good or bad
    joined: int = 0  # lines that quotes join to the row before them
    plain: bool = False  # whether no byte is a plus sign or a capital from A to F


def cut(
    data: bytes, line: int, file: int, names: tuple[str, ...], separator: str, quotes: bool
) -> Rows:
    """The rows of a block of lines, of which `line` is the number of the first."""
    if not data.endswith(b"\n"):
        data += b"\n"
    if quotes and has_quoted(data, separator.encode()):
        rows = _quoted(data, line, names, separator)
        every = records(data, separator.encode(), len(names))
        return _one_by_one(every, line, file, names) if rows is None else rows
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    count = _uniform(data, len(names), separator)
    if count is not None:
        frame = _frame(data, names, separator)
        if frame is not None and frame.height == count:
            return Rows(frame, np.arange(line, line + count), [], count, plain=_is_plain(data))
    return _one_by_one(_lines(data, separator.encode()), line, file, names)


def _uniform(data: bytes, fields: int, separator: str) -> int | None:
    """How many lines there are if all have the right number of fields, in UTF-8."""
    array = np.frombuffer(data, dtype=np.uint8)
    # Polars would remove carriage returns and byte order marks from the values.
    if b"\r" in data or data.startswith(_BOM) or not _is_text(data):
        return None
    low = np.uint8(max(ord(separator), _NEWLINE))
    # One comparison finds tabs and line ends, and few others, of which a text log has none.
    is_mark = array <= low if low < 32 else (array == ord(separator)) | (array == _NEWLINE)
    marks = np.flatnonzero(is_mark)
    if len(marks) % fields:
        return None
    table = array[marks].reshape(-1, fields)
    if not (np.all(table[:, -1] == _NEWLINE) and np.all(table[:, :-1] == ord(separator))):
        return None
    if fields == 1 and np.any(np.diff(marks, prepend=-1) == 1):  # a blank line
        return None
    return len(table)


def _is_text(data: bytes) -> bool:
    """Whether it is UTF-8 throughout."""
    try:
        return data.isascii() or data.decode() is not None
    except UnicodeDecodeError:
        return False


def _is_plain(data: bytes) -> bool:
    return not any(mark in data for mark in _CAPITALS)


def _quoted(data: bytes, line: int, names: tuple[str, ...], separator: str) -> Rows | None:
    """The rows of a block with quoted fields, if all of them are as they should be."""
    rows = layout(data, separator.encode(), len(names))
    if rows is None or int(rows.ends[-1]) + 1 != len(data):
        return None
    if data.startswith(_BOM) or not _is_text(data):
        return None
    if len(rows.returns):
        data = np.delete(np.frombuffer(data, dtype=np.uint8), rows.returns).tobytes()
    frame = _frame(data, names, separator, '"')
    if frame is None or frame.height != len(rows.ends):
        return None
    frame = frame.with_columns(map(as_in_text, frame))
    joined = data.count(b"\n") - len(rows.ends)
    return Rows(frame, line + rows.lines, [], len(rows.ends), joined, _is_plain(data))


def _frame(
    data: bytes, names: tuple[str, ...], separator: str, quote: str | None = None
) -> pl.DataFrame | None:
    try:
        return pl.read_csv(
            data,
            separator=separator,
            has_header=False,
            schema=dict.fromkeys(_distinct(names), pl.String),
            quote_char=quote,
        )
    except pl.exceptions.PolarsError:
        return None


def _distinct(names: tuple[str, ...]) -> list[str]:
    """The names, with others in place of empty and repeated ones, which no schema can hold."""
    pairs = enumerate(names)
    return [name if name and name not in names[:at] else f"\0{at}" for at, name in pairs]


def _lines(data: bytes, separator: bytes) -> Iterator[Record]:
    """Every line as a row."""
    at = 0
    for text in data[:-1].split(b"\n"):
        yield Record(at, at + len(text) + 1, text.split(separator))
        at += len(text) + 1


def _one_by_one(every: Iterable[Record], line: int, file: int, names: tuple[str, ...]) -> Rows:
    """The rows of a block, with a reason for each bad row: slow."""
    schema = dict.fromkeys(_distinct(names), pl.String)
    frames: list[pl.DataFrame] = [pl.DataFrame(schema=schema)]
    good: list[list[str | None]] = []
    lines: list[int] = []
    bad: list[BadRow] = []
    number = line
    for record in every:
        reason, message, fields = _fields(record, names)
        if reason:
            bad.append(BadRow(file, number, reason, message))
        else:
            good.append([field or None for field in fields])  # as Polars has it: nothing is null
            lines.append(number)
        number += record.lines
        if len(good) == _ROWS:  # Python's strings are many times as large as Polars'
            frames.append(pl.DataFrame(good, schema=schema, orient="row"))
            good = []
    if good:
        frames.append(pl.DataFrame(good, schema=schema, orient="row"))
    count = len(lines) + len(bad)
    numbers = np.array(lines, dtype=np.int64)
    return Rows(pl.concat(frames), numbers, bad, count, joined=number - line - count)


def _fields(record: Record, names: tuple[str, ...]) -> tuple[str, str, list[str]]:
    """The fault of a row in a few words and in a sentence, or its fields."""
    if record.fields is None:
        return "bad quotes", "its double quotes do not enclose whole fields", []
    if record.fields == [b""] and record.stop - record.start <= 2:
        return "blank line", "the line is blank", []
    fields: list[str] = []
    for place, field in enumerate(record.fields):
        try:
            fields.append(field.decode())
        except UnicodeDecodeError as error:
            name = repr(names[place]) if place < len(names) else f"number {place + 1}"
            message = f"column {name} has {field[:_SHOWN]!r}, which is not UTF-8"
            return "bad UTF-8", f"{message} (byte {field[error.start]:#04x})", []
    if len(fields) != len(names):
        return "wrong field count", f"{len(fields)} fields instead of {len(names)}", []
    return "", "", fields


def header_fields(line: bytes, path: Path, separator: str, quotes: bool) -> tuple[str, ...]:
    """The names in the first line of a file."""
    data, mark = line + b"\n", separator.encode()
    (record,) = records(data, mark, 0) if quotes else _lines(data, mark)
    numbers = tuple(map(str, range(1, len(record.fields or ()) + 1)))
    reason, message, fields = _fields(record, numbers)
    if reason:
        raise DataError(f"{path}, line 1: there should be a header, but {message}.")
    return tuple(fields)
