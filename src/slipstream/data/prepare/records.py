"""Finds where rows end in text whose fields may stand in double quotes.

A quote opens a field only where the field begins; anywhere else it is a character like any other.
A quoted field may hold separators, line ends and doubled quotes, and ends at a quote with a
separator or a line end behind it. Lines that a quote holds together are one row only if that row
has as many fields as it should: else the first of them is bad by itself, and the next one begins a
row of its own. So a stray quote costs its own line and no other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

LONGEST = 8 << 20  # bytes of a row that goes over several lines
_QUOTE, _DOUBLED, _END = b'"', b'""', b"\n"


@dataclass(frozen=True)
class Record:
    """A row of the text.

    Args:
        start: Where it begins.
        stop: Where the next one begins.
        fields: Its fields without their quotes; None where its quotes enclose no whole fields.
        lines: How many lines it goes over.
    """

    start: int
    stop: int
    fields: list[bytes] | None
    lines: int = 1


def has_quoted(data: bytes, separator: bytes, start: int = 0) -> bool:
    """Whether any field begins with a quote."""
    if data.find(_QUOTE, start) < 0:
        return False
    return (
        data.startswith(_QUOTE, start)
        or data.find(separator + _QUOTE, start) >= 0
        or data.find(_END + _QUOTE, start) >= 0
    )


def records(data: bytes, separator: bytes, count: int) -> Iterator[Record]:
    """All rows of a text that ends with a line end.

    Args:
        data: The text.
        separator: Between two fields.
        count: How many fields a row should have.
    """
    at = 0
    while at < len(data):
        record = _record(data, at, separator, count)
        if record is None:  # still open where the text ends
            record = Record(at, data.index(_END, at) + 1, None)
        yield record
        at = record.stop


def whole_records(data: bytes, separator: bytes, count: int, start: int, enough: int) -> int:
    """Where the last row ends that no later text can change; `start` where there is none.

    Args:
        data: The text as far as it was read.
        separator: Between two fields.
        count: How many fields a row should have.
        start: Where the first row begins.
        enough: Stop at the first row that ends behind this place.
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
