"""Finds where rows end in text whose fields may stand in double quotes.

A quote opens a field only where the field begins; anywhere else it is a character like any other.
A quoted field may hold separators, line ends and doubled quotes, and ends at a quote with a
separator or a line end behind it. Lines that a quote holds together are one row only if that row
has as many fields as it should: else the first of them is bad by itself, and the next one begins a
row of its own. So a stray quote costs its own line and no other.

`layout` finds all rows at once in the many files in which every quote is in its place: a count of
the quotes then shows which separators and line ends are part of a field. Anything else is left to
`records`, which goes row by row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from slipstream.arrays import Array

LONGEST = 8 << 20  # bytes of a row that goes over several lines
_QUOTE, _DOUBLED, _END = b'"', b'""', b"\n"
_NEWLINE_BYTE, _RETURN_BYTE, _QUOTE_BYTE = 10, 13, 34


@dataclass(frozen=True)
class Record:
    """A row of the text."""

    start: int  # where it begins
    stop: int  # where the next one begins
    fields: list[bytes] | None  # without their quotes; None where quotes enclose no whole fields
    lines: int = 1  # how many it spans


def has_quoted(data: bytes, separator: bytes, start: int = 0) -> bool:
    """Whether any field begins with a quote."""
    pairs = (separator + _QUOTE, _END + _QUOTE)
    return data.find(_QUOTE, start) >= 0 and (
        data.startswith(_QUOTE, start) or any(data.find(pair, start) >= 0 for pair in pairs)
    )


def records(data: bytes, separator: bytes, count: int) -> Iterator[Record]:
    """All rows of a text that ends with a line end; each should have `count` fields."""
    at = 0
    while at < len(data):
        record = _record(data, at, separator, count)
        if record is None:  # still open where the text ends
            record = Record(at, data.index(_END, at) + 1, None)
        yield record
        at = record.stop


def whole_records(data: bytes, separator: bytes, count: int, start: int, enough: int) -> int:
    """Where the last row ends that no later text can change; `start` where there is none.

    The search stops at the first row that ends behind `enough`.
    """
    at = start
    while at <= enough:
        quote = data.find(_QUOTE, at)
        if quote < 0:
            end = data.rfind(_END, at, enough) + 1
            return max(at, end or data.find(_END, at) + 1)
        at = max(at, data.rfind(_END, at, quote) + 1)  # lines without quotes end as they are
        record = _record(data, at, separator, count)
        if record is None:
            break
        at = record.stop
    return at


def _record(data: bytes, start: int, separator: bytes, count: int) -> Record | None:
    """The row that begins at a place; None where it is not decided by the end of the text."""
    first = data.find(_END, start)
    if first < 0:
        return None
    bad = Record(start, first + 1, None)
    bound = max(first, start + LONGEST)
    fields: list[bytes] = []
    at, lines = start, 1
    while True:
        if not data.startswith(_QUOTE, at):
            end = data.find(_END, at, bound + 1)
            if end < 0:
                return None if bound >= len(data) else bad
            opener = data.find(separator + _QUOTE, at, end)
            if opener < 0:
                fields += data[at:end].removesuffix(b"\r").split(separator)
                break
            fields += data[at:opener].split(separator)
            at = opener + 1
        close = data.find(_QUOTE, at + 1, bound + 1)
        while close >= 0 and data.startswith(_QUOTE, close + 1):
            close = data.find(_QUOTE, close + 2, bound + 1)
        if close < 0:
            return None if bound >= len(data) else bad
        fields.append(data[at + 1 : close].replace(_DOUBLED, _QUOTE))
        lines += data.count(_END, at, close)
        at = close + 1
        if data.startswith(separator, at):
            at += 1
            if len(fields) > count and lines > 1:
                return bad
            continue
        end = at + data.startswith(b"\r", at)
        if data.startswith(_END, end):
            break
        return None if end >= len(data) else bad
    if lines > 1 and (len(fields) != count or end - start > LONGEST):
        return bad
    return Record(start, end + 1, fields, lines)


@dataclass(frozen=True)
class Layout:
    """Where the rows of a text lie."""

    starts: Array  # of the rows
    ends: Array  # the place of the line end of each row
    lines: Array  # line ends before each row
    returns: Array  # the carriage returns that belong to line ends


def layout(data: bytes, separator: bytes, count: int) -> Layout | None:
    """Where rows of `count` fields lie, up to the last whole one; None where any is faulty."""
    array = np.frombuffer(data, dtype=np.uint8)
    quotes = np.flatnonzero(array == _QUOTE_BYTE)
    marks = np.flatnonzero((array == separator[0]) | (array == _NEWLINE_BYTE))
    outside = marks[np.searchsorted(quotes, marks) % 2 == 0]
    ends = outside[array[outside] == _NEWLINE_BYTE]
    if not len(ends):
        return None
    stop = int(ends[-1]) + 1
    array, outside = array[:stop], outside[: np.searchsorted(outside, stop)]
    if len(outside) != len(ends) * count:
        return None
    if not np.array_equal(outside[count - 1 :: count], ends):
        return None
    if not _enclose(array, quotes[: np.searchsorted(quotes, stop)], separator[0]):
        return None
    starts = np.concatenate([[0], ends[:-1] + 1])
    returns = np.flatnonzero(array == _RETURN_BYTE) if b"\r" in data else ends[:0]
    returns = returns[np.searchsorted(quotes, returns) % 2 == 0]
    if not np.all(array[returns + 1] == _NEWLINE_BYTE):
        return None
    if count == 1 and np.any(ends - np.isin(ends - 1, returns) == starts):  # a blank line
        return None
    lines = np.searchsorted(np.flatnonzero(array == _NEWLINE_BYTE), starts)
    joined = np.diff(lines, append=data.count(b"\n", 0, stop)) > 1
    if np.any(joined & (ends - starts > LONGEST)):
        return None
    return Layout(starts, ends, lines, returns)


def _enclose(array: Array, quotes: Array, separator: int) -> bool:
    """Whether quotes enclose whole fields; a doubled one closes its field and opens it again."""
    opening, closing = quotes[::2], quotes[1::2]
    if not len(quotes):
        return True
    doubled = opening[1:] == closing[:-1] + 1
    before, after = array[opening - 1], array[closing + 1]
    begins = (opening == 0) | (before == separator) | (before == _NEWLINE_BYTE)
    begins[1:] |= doubled
    stops = (after == separator) | (after == _NEWLINE_BYTE) | (after == _RETURN_BYTE)
    stops[:-1] |= doubled
    return bool(begins.all() and stops.all())
