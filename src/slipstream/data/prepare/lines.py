"""Cuts a block of lines into fields: fast where every line is as it should be, else one by one.

Polars takes short lines and blank lines for nulls without a word and names no line for bad UTF-8,
so the block is checked at the level of bytes first.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from slipstream.data.inputs import Array
from slipstream.errors import DataError

_NEWLINE, _QUOTE = 10, 34
_ROWS = 2048
_SHOWN = 40
_CAPITALS = (b"+", b"A", b"B", b"C", b"D", b"E", b"F")


@dataclass(frozen=True)
class BadRow:
    """A row of a log that cannot be used.

    Args:
        file: The number of the file.
        line: The number of its line, from 1; of its row in a Parquet file.
        reason: A few words, the same for all rows with the same fault.
        what: A sentence about this row.
    """

    file: int
    line: int
    reason: str
    what: str


@dataclass(frozen=True)
class Rows:
    """The rows of a block as fields.

    Args:
        frame: A column of text for each field; of other types from Parquet.
        lines: The line number of each row.
        bad: The rows that are not in the frame.
        count: Rows of the block, good or bad.
        plain: Whether no byte of the block is a plus sign or one of the capitals A to F.
    """

    frame: pl.DataFrame
    lines: Array
    bad: list[BadRow]
    count: int
    plain: bool = False


def cut(
    data: bytes, line: int, file: int, names: tuple[str, ...], separator: str, quotes: bool
) -> Rows:
    """The rows of a block of lines.

    Args:
        data: The lines.
        line: The number of the first one.
        file: The number of the file.
        names: The names of the fields that each line must have.
        separator: Between two fields.
        quotes: Whether fields may stand in double quotes.
    """
    if not data.endswith(b"\n"):
        data += b"\n"
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    count = _uniform(data, len(names), separator, quotes)
    if count is not None:
        frame = _frame(data, names, separator)
        if frame is not None and frame.height == count:
            plain = not any(mark in data for mark in _CAPITALS)
            return Rows(frame, np.arange(line, line + count), [], count, plain)
    return _one_by_one(data, line, file, names, separator, quotes)


def _uniform(data: bytes, fields: int, separator: str, quotes: bool) -> int | None:
    """How many lines there are if all have the right number of fields, in UTF-8."""
    array = np.frombuffer(data, dtype=np.uint8)
    if quotes and _QUOTE in data:
        return None
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            return None
    low = np.uint8(max(ord(separator), _NEWLINE))
    # One comparison finds tabs and line ends, and few others, of which a text log has none.
    marks = np.flatnonzero(array <= low) if low < 32 else _marks(array, ord(separator))
    if len(marks) % fields:
        return None
    found = array[marks].reshape(-1, fields)
    if not (np.all(found[:, -1] == _NEWLINE) and np.all(found[:, :-1] == ord(separator))):
        return None
    if fields == 1:
        ends = marks
        if np.any(np.diff(ends, prepend=-1) == 1):  # a blank line
            return None
    return len(found)


def _marks(array: Array, separator: int) -> Array:
    return np.flatnonzero((array == separator) | (array == _NEWLINE))


def _frame(data: bytes, names: tuple[str, ...], separator: str) -> pl.DataFrame | None:
    try:
        return pl.read_csv(
            data,
            separator=separator,
            has_header=False,
            schema=dict.fromkeys(_distinct(names), pl.String),
            quote_char=None,
        )
    except pl.exceptions.PolarsError:
        return None


def _distinct(names: tuple[str, ...]) -> list[str]:
    """The names, with others for those that are empty or given twice: no schema can use these."""
    return [
        name if name and name not in names[:place] else f"\0{place}"
        for place, name in enumerate(names)
    ]


def _one_by_one(
    data: bytes, line: int, file: int, names: tuple[str, ...], separator: str, quotes: bool
) -> Rows:
    """The plain way, which knows what is wrong with each line."""
    schema = dict.fromkeys(_distinct(names), pl.String)
    frames: list[pl.DataFrame] = [pl.DataFrame(schema=schema)]
    good: list[list[str | None]] = []
    lines: list[int] = []
    bad: list[BadRow] = []
    for number, record in _records(data, line, quotes):
        reason, what, fields = _fields(record, names, separator, quotes)
        if reason:
            # A stray quote may hold many good lines together: each is set aside and counted.
            for further in range(record.count(b"\n") + 1):
                bad.append(BadRow(file, number + further, reason, what))
            continue
        good.append([field or None for field in fields])  # as Polars has it: nothing is null
        lines.append(number)
        if len(good) == _ROWS:  # Python's strings are many times as large as Polars'
            frames.append(pl.DataFrame(good, schema=schema, orient="row"))
            good = []
    if good:
        frames.append(pl.DataFrame(good, schema=schema, orient="row"))
    numbers = np.array(lines, dtype=np.int64)
    return Rows(pl.concat(frames), numbers, bad, len(lines) + len(bad))


def _records(data: bytes, line: int, quotes: bool) -> list[tuple[int, bytes]]:
    """The lines with their numbers; lines that a quote holds together are one."""
    records: list[tuple[int, bytes]] = []
    open_at: int | None = None
    for number, text in enumerate(data[:-1].split(b"\n"), line):
        if open_at is not None:
            records[-1] = (open_at, records[-1][1] + b"\n" + text)
        else:
            records.append((number, text))
        if quotes and text.count(b'"') % 2:
            open_at = number if open_at is None else None
    return records


def _fields(
    record: bytes, names: tuple[str, ...], separator: str, quotes: bool
) -> tuple[str, str, list[str]]:
    """What is wrong with a line in few words and in a sentence, or its fields."""
    if not record:
        return "blank line", "the line is blank", []
    try:
        text = record.decode()
    except UnicodeDecodeError as error:
        place = record[: error.start].count(separator.encode())
        name = repr(names[place]) if place < len(names) else f"number {place + 1}"
        value = record.split(separator.encode())[place][:_SHOWN]
        what = f"column {name} has {value!r}, which is not UTF-8 (byte {record[error.start]:#04x})"
        return "bad UTF-8", what, []
    fields = text.split(separator)
    if quotes and '"' in text:
        unquoted = _unquoted(fields, separator)
        if unquoted is None:
            what = "its double quotes do not enclose whole fields"
            return "bad quotes", what, []
        fields = unquoted
    if len(fields) != len(names):
        return "wrong field count", f"{len(fields)} fields instead of {len(names)}", []
    return "", "", fields


def _unquoted(pieces: list[str], separator: str) -> list[str] | None:
    """Fields with their quotes taken off; None where quotes stand inside a field."""
    fields: list[str] = []
    held: list[str] = []
    for piece in pieces:
        if held or piece.startswith('"'):
            held.append(piece)
            field = separator.join(held)
            inner = field[1:]
            if len(field) > 1 and (len(inner) - len(inner.rstrip('"'))) % 2:
                inner = inner[:-1]
                if '"' in inner.replace('""', ""):
                    return None
                fields.append(inner.replace('""', '"'))
                held = []
        elif '"' in piece:
            return None
        else:
            fields.append(piece)
    return None if held else fields


def header_fields(line: bytes, path: Path, separator: str, quotes: bool) -> tuple[str, ...]:
    """The names in the first line of a file."""
    numbers = tuple(map(str, range(1, line.count(separator.encode()) + 2)))
    reason, what, fields = _fields(line, numbers, separator, quotes)
    if reason == "wrong field count":  # separators inside quotes are none
        fields = _unquoted(line.decode().split(separator), separator) or []
    elif reason:
        raise DataError(f"{path}, line 1: there should be a header, but {what}.")
    return tuple(fields)
