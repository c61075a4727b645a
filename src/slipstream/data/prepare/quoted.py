"""Text with quoted fields, all rows at once: for the many files in which every quote stands right.

Quotes then open and close by turns, so that a count of them says which separators and line ends
are part of a field. Whatever is not as it should be is left to `records`, which goes row by row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.arrays import Array
from slipstream.data.prepare import records

_NEWLINE, _RETURN, _QUOTE = 10, 13, 34


@dataclass(frozen=True)
class Layout:
    """Where the rows of a text lie.

    Args:
        starts: Where each row begins.
        ends: Where the line end of each row is.
        lines: How many line ends come before each row.
        returns: The carriage returns that belong to line ends.
    """

    starts: Array
    ends: Array
    lines: Array
    returns: Array


def layout(data: bytes, separator: bytes, count: int) -> Layout | None:
    """Where rows lie, up to the last whole one; None where any of them is not as it should be.

    Args:
        data: The text.
        separator: Between two fields.
        count: How many fields a row should have.
    """
    array = np.frombuffer(data, dtype=np.uint8)
    quotes = np.flatnonzero(array == _QUOTE)
    marks = np.flatnonzero((array == separator[0]) | (array == _NEWLINE))
    outside = marks[np.searchsorted(quotes, marks) % 2 == 0]
    ends = outside[array[outside] == _NEWLINE]
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
    returns = np.flatnonzero(array == _RETURN) if b"\r" in data else ends[:0]
    returns = returns[np.searchsorted(quotes, returns) % 2 == 0]
    if not np.all(array[returns + 1] == _NEWLINE):
        return None
    if count == 1 and np.any(ends - np.isin(ends - 1, returns) == starts):  # a blank line
        return None
    lines = np.searchsorted(np.flatnonzero(array == _NEWLINE), starts)
    joined = np.diff(lines, append=data.count(b"\n", 0, stop)) > 1
    if np.any(joined & (ends - starts > records.LONGEST)):
        return None
    return Layout(starts, ends, lines, returns)


def _enclose(array: Array, quotes: Array, separator: int) -> bool:
    """Whether quotes enclose whole fields; a doubled one closes its field and opens it again."""
    opening, closing = quotes[::2], quotes[1::2]
    if not len(quotes):
        return True
    doubled = opening[1:] == closing[:-1] + 1
    before, after = array[opening - 1], array[closing + 1]
    begins = (opening == 0) | (before == separator) | (before == _NEWLINE)
    begins[1:] |= doubled
    stops = (after == separator) | (after == _NEWLINE) | (after == _RETURN)
    stops[:-1] |= doubled
    return bool(begins.all() and stops.all())
