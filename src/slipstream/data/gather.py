"""Reads any inputs of a part, in any order, into arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from slipstream.arrays import Array
from slipstream.data.copying import copy_rows, is_rising, span
from slipstream.data.dataset import Part
from slipstream.data.inputs import Ragged
from slipstream.data.layout import list_fields
from slipstream.errors import DataError
from slipstream.order.order import RUN

PAGE = 4096
_WORDS = {4: np.int32, 8: np.int64}


@dataclass(frozen=True)
class Piece:
    """Inputs to take from one shard.

    Args:
        shard: The shard.
        wanted: Which of its inputs, or of its runs of inputs; a slice where they are consecutive.
        places: Where each of them goes; None where they go one after the other.
    """

    shard: int
    wanted: slice | Array
    places: Array | None = None


@dataclass(frozen=True)
class Stretch:
    """Some of the inputs to read, one after the other in the result.

    Args:
        count: How many inputs.
        pieces: Where they are.
        unit: Consecutive inputs that every number in the pieces stands for, unless it is a slice.
    """

    count: int
    pieces: list[Piece]
    unit: int = 1


@dataclass(frozen=True)
class Gather:
    """How to read some inputs: worked out once, used for every array."""

    part: Part
    stretches: list[Stretch]

    @classmethod
    def of(cls, part: Part, numbers: Array) -> Gather:
        """The gather of the inputs of these numbers.

        Consecutive inputs are copied as fast as memory allows, and short aligned runs of them,
        such as a shuffled order has, several times faster than inputs one by one.
        """
        n = len(numbers)
        if n == 0:
            return cls(part, [])
        lowest, highest, breaks = span(numbers)
        if lowest < 0 or highest >= len(part):
            raise DataError(
                f"There is no input {lowest if lowest < 0 else highest} in part {part.name!r}, "
                f"which has {len(part)}."
            )
        if not breaks:
            return cls.between(part, lowest, highest + 1)
        # Runs may be cut at both ends: there a batch begins or ends.
        first = int(-numbers[0] % RUN)
        last = n - (n - first) % RUN
        if first < last and _in_runs(part, numbers, first, breaks):
            stretches = [_scattered(part, numbers[first:last:RUN], RUN)]
            if first:
                stretches.insert(0, _scattered(part, numbers[:first]))
            if last < n:
                stretches.append(_scattered(part, numbers[last:]))
            return cls(part, stretches)
        return cls(part, [_scattered(part, numbers)])

    @classmethod
    def between(cls, part: Part, start: int, stop: int) -> Gather:
        """The gather of consecutive inputs."""
        if not 0 <= start <= stop <= len(part):
            raise DataError(
                f"There are no inputs {start} to {stop} in part {part.name!r}, which has "
                f"{len(part)}."
            )
        return cls(part, [_consecutive(part, start, stop)] if start < stop else [])

    def fixed(self, name: str, out: Array) -> None:
        """Fill `out` with the inputs' rows of an array of fixed width."""
        start = 0
        for stretch in self.stretches:
            stop = start + stretch.count
            self._fill(stretch, name, out[start:stop])
            start = stop

    def lists(self, name: str) -> Ragged:
        """The inputs' lists of a column."""
        if not self.stretches:
            none = np.empty(0, dtype=list_fields(self.part.schema)[name])
            return Ragged(none, np.zeros(1, dtype=np.int64))
        return _join_lists([self._lists(stretch, name) for stretch in self.stretches])

    def _fill(self, stretch: Stretch, name: str, out: Array) -> None:
        start = 0
        for piece in stretch.pieces:
            source = self.part.shards[piece.shard].fixed()[name]
            if isinstance(piece.wanted, slice):
                stop = start + piece.wanted.stop - piece.wanted.start
                out[start:stop] = source[piece.wanted]
                start = stop
            else:
                assert piece.places is not None, "only consecutive inputs have no places"
                source, target = (_units(array, stretch.unit) for array in (source, out))
                copy_rows(source, piece.wanted, piece.places, target)

    def _lists(self, stretch: Stretch, name: str) -> Ragged:
        laid = _join_lists(
            [
                _take_lists(self.part.shards[p.shard].lists[name], _each(p.wanted, stretch.unit))
                for p in stretch.pieces
            ]
        )
        places = [piece.places for piece in stretch.pieces if piece.places is not None]
        if not places:
            return laid
        order = np.empty(stretch.count // stretch.unit, dtype=np.int64)
        order[np.concatenate(places)] = np.arange(len(order))
        return _take_lists(laid, _each(order, stretch.unit))


def _in_runs(part: Part, numbers: Array, first: int, breaks: int) -> bool:
    """Whether inputs are whole runs, each inside one shard and where a run begins.

    Args:
        part: Where the inputs are.
        numbers: The inputs; the first and the last run may lack some.
        first: Where the first whole run begins.
        breaks: How many inputs do not follow the one before.
    """
    if any(start % RUN for start in part.starts[:-1]) or np.any(numbers[first::RUN] & (RUN - 1)):
        return False
    border = first or RUN
    at_borders = np.count_nonzero(numbers[border::RUN] - numbers[border - 1 : -1 : RUN] != 1)
    return breaks == at_borders


def _consecutive(part: Part, start: int, stop: int) -> Stretch:
    """Consecutive inputs, which may lie in several shards."""
    pieces = []
    for shard, first in enumerate(part.starts[:-1]):
        begin, end = max(start, first), min(stop, part.starts[shard + 1])
        if begin < end:
            pieces.append(Piece(shard, slice(begin - first, end - first)))
    return Stretch(stop - start, pieces)


def _scattered(part: Part, numbers: Array, unit: int = 1) -> Stretch:
    """Inputs, or runs of `unit` inputs, each read where it lies, shard by shard."""
    # Memory is read forward, which is faster, and written here and there.
    numbers, places = _rising(numbers // unit)
    ends = np.searchsorted(numbers, [-(-start // unit) for start in part.starts])
    pieces = [
        Piece(shard, numbers[begin:end] - part.starts[shard] // unit, places[begin:end])
        for shard, (begin, end) in enumerate(pairwise(ends))
        if begin < end
    ]
    return Stretch(len(numbers) * unit, pieces, unit)


def _rising(numbers: Array) -> tuple[Array, Array]:
    """Numbers in rising order, and where each of them stood."""
    if is_rising(numbers):  # an order of which some inputs are left out
        return numbers, np.arange(len(numbers))
    bits = len(numbers).bit_length()
    keys = numbers << bits  # sorted with their places inside, which is faster than an argsort
    keys |= np.arange(len(keys))
    keys.sort()
    return keys >> bits, keys & ((1 << bits) - 1)


def _each(wanted: slice | Array, unit: int) -> slice | Array:
    """The inputs that these units stand for."""
    if unit == 1 or isinstance(wanted, slice):
        return wanted
    return (wanted[:, None] * unit + np.arange(unit)).reshape(-1)


def _units(array: Array, unit: int) -> Array:
    """The array with so many inputs in a row; a last one that is not whole is left out."""
    units = len(array) // unit
    words = array.view(_WORDS[array.dtype.itemsize])  # fewer kinds of arrays to compile for
    width = math.prod(array.shape[1:]) * unit
    return words[: units * unit].reshape(units, width)


def _take_lists(ragged: Ragged, wanted: slice | Array) -> Ragged:
    """The wanted lists, one after the other."""
    if isinstance(wanted, slice):
        return ragged.slice(wanted.start, wanted.stop)
    first = ragged.offsets[wanted]
    lengths = ragged.offsets[wanted + 1] - first
    ends = np.cumsum(lengths)
    places = np.arange(ends[-1]) + np.repeat(first - (ends - lengths), lengths)
    return Ragged(ragged.values[places], np.concatenate([[0], ends]))


def _join_lists(pieces: list[Ragged]) -> Ragged:
    if len(pieces) == 1:
        return pieces[0]
    lengths = np.concatenate([np.diff(piece.offsets) for piece in pieces])
    return Ragged(
        np.concatenate([piece.values for piece in pieces]),
        np.concatenate([[0], np.cumsum(lengths)]),
    )


def page_start(memory: Array) -> int:
    """Where the first page in some bytes begins.

    On some processors a copy from one place in a page to the same place plus a few bytes takes
    three times as long; the arrays in files begin at the start of a page.
    """
    return int(-memory.ctypes.data % PAGE)
