"""Reads any examples of a part, in any order, into arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from slipstream.arrays import Array
from slipstream.data.copying import copy_rows, is_rising, span
from slipstream.data.dataset import Part
from slipstream.data.inputs import Examples, Ragged
from slipstream.data.layout import list_fields
from slipstream.errors import DataError
from slipstream.order.order import RUN

PAGE = 4096
_WORDS = {4: np.int32, 8: np.int64}


@dataclass(frozen=True)
class _Scattered:
    """Examples of one shard, or runs of `unit` of them, that go to out[start:stop]."""

    shard: int
    wanted: Array  # the numbers of the runs in the shard
    places: Array  # the places of the runs in out[start:stop]
    start: int
    stop: int
    unit: int


@dataclass(frozen=True)
class Gather:
    """How to read some examples: worked out once, used for every array."""

    part: Part
    example_numbers: Array | None  # None where the examples are consecutive
    runs: Sequence[Examples] = ()  # where they are consecutive
    pieces: Sequence[_Scattered] = ()  # elsewhere

    @classmethod
    def of(cls, part: Part, numbers: Array) -> Gather:
        """The gather of the examples of these numbers.

        Consecutive examples are copied as fast as memory allows, and short aligned runs of them,
        such as a shuffled order has, several times faster than examples one by one.
        """
        n = len(numbers)
        if n == 0:
            return cls.between(part, 0, 0)
        lowest, highest, breaks = span(numbers)
        if lowest < 0 or highest >= len(part):
            raise DataError(
                f"There is no example {lowest if lowest < 0 else highest} in part {part.name!r}, "
                f"which has {len(part)}."
            )
        if not breaks:
            return cls.between(part, lowest, highest + 1)
        # Runs may be cut at both ends: there a batch begins or ends.
        first = int(-numbers[0] % RUN)
        last = n - (n - first) % RUN
        pieces: list[_Scattered] = []
        if first < last and _in_runs(part, numbers, first, breaks):
            pieces += _scattered(part, numbers, 0, first)
            pieces += _scattered(part, numbers, first, last, RUN)
            pieces += _scattered(part, numbers, last, n)
        else:
            pieces += _scattered(part, numbers, 0, n)
        return cls(part, numbers, pieces=pieces)

    @classmethod
    def between(cls, part: Part, start: int, stop: int) -> Gather:
        """The gather of consecutive examples."""
        if not 0 <= start <= stop <= len(part):
            raise DataError(
                f"There are no examples {start} to {stop} in part {part.name!r}, which has "
                f"{len(part)}."
            )
        return cls(part, None, runs=part.runs(start, stop))

    def fixed(self, name: str, out: Array) -> None:
        """Fill `out` with the examples' rows of an array of fixed width."""
        start = 0
        for run in self.runs:
            out[start : start + len(run)] = run.fixed()[name]
            start += len(run)
        for piece in self.pieces:
            source = self.part.shards[piece.shard].fixed()[name]
            target = _units(out[piece.start : piece.stop], piece.unit)
            copy_rows(_units(source, piece.unit), piece.wanted, piece.places, target)

    def lists(self, name: str) -> Ragged:
        """The examples' lists of a column."""
        if self.example_numbers is None:
            dtype = list_fields(self.part.schema)[name]
            return _join_lists([run.lists[name] for run in self.runs], dtype)
        shards = np.searchsorted(self.part.starts, self.example_numbers, side="right") - 1
        lists, order = [], []
        for shard in np.unique(shards).tolist():
            order.append(np.flatnonzero(shards == shard))
            within = self.example_numbers[order[-1]] - self.part.starts[shard]
            lists.append(_take_lists(self.part.shards[shard].lists[name], within))
        if len(lists) == 1:
            return lists[0]
        return _take_lists(_join_lists(lists), np.argsort(np.concatenate(order)))


def _in_runs(part: Part, numbers: Array, first: int, breaks: int) -> bool:
    """Whether examples are whole runs, each inside one shard and where a run begins.

    The first whole run begins at `first`; the runs at both ends may lack some. `breaks` is the
    number of examples whose number is not that of the example before plus 1.
    """
    if any(start % RUN for start in part.starts[:-1]) or np.any(numbers[first::RUN] & (RUN - 1)):
        return False
    border = first or RUN
    at_borders = np.count_nonzero(numbers[border::RUN] - numbers[border - 1 : -1 : RUN] != 1)
    return breaks == at_borders


def _scattered(
    part: Part, numbers: Array, start: int, stop: int, unit: int = 1
) -> Iterator[_Scattered]:
    """How to read numbers[start:stop], runs of `unit` examples, shard by shard."""
    # Memory is read forward, which is faster, and written here and there.
    wanted, places = _rising(numbers[start:stop:unit] // unit)
    ends = np.searchsorted(wanted, [-(-first // unit) for first in part.starts])
    for shard, (begin, end) in enumerate(pairwise(ends)):
        if begin < end:
            within = wanted[begin:end] - part.starts[shard] // unit
            yield _Scattered(shard, within, places[begin:end], start, stop, unit)


def _rising(numbers: Array) -> tuple[Array, Array]:
    """Numbers in rising order, and where each of them stood."""
    if is_rising(numbers):  # an order without some of its examples
        return numbers, np.arange(len(numbers))
    bits = len(numbers).bit_length()
    keys = numbers << bits  # sorted with their places inside, which is faster than an argsort
    keys |= np.arange(len(keys))
    keys.sort()
    return keys >> bits, keys & ((1 << bits) - 1)


def _units(array: Array, unit: int) -> Array:
    """The array with so many examples in a row; a last one that is not whole is left out."""
    units = len(array) // unit
    words = array.view(_WORDS[array.dtype.itemsize])  # fewer kinds of arrays to compile for
    width = math.prod(array.shape[1:]) * unit
    return words[: units * unit].reshape(units, width)


def _take_lists(ragged: Ragged, wanted: Array) -> Ragged:
    """The wanted lists, one after the other."""
    first = ragged.offsets[wanted]
    lengths = ragged.offsets[wanted + 1] - first
    ends = np.cumsum(lengths)
    places = np.arange(ends[-1]) + np.repeat(first - (ends - lengths), lengths)
    return Ragged(ragged.values[places], np.concatenate([[0], ends]))


def _join_lists(pieces: list[Ragged], dtype: np.dtype[Any] | None = None) -> Ragged:
    if len(pieces) == 1:
        return pieces[0]
    lengths = [np.diff(piece.offsets) for piece in pieces]
    values = [piece.values for piece in pieces] or [np.empty(0, dtype=dtype)]
    return Ragged(np.concatenate(values), np.cumsum(np.concatenate([[0], *lengths])))


def page_start(memory: Array) -> int:
    """Where the first page in some bytes begins.

    On some processors a copy from one place in a page to the same place plus a few bytes takes
    three times as long; the arrays in files begin at the start of a page.
    """
    return int(-memory.ctypes.data % PAGE)
