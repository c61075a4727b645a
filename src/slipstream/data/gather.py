"""Reads any inputs of a part, in any order, into arrays."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slipstream.data.copying import copy_rows
from slipstream.data.dataset import Part
from slipstream.data.inputs import Array, Ragged
from slipstream.data.layout import list_fields
from slipstream.errors import DataError
from slipstream.ordering.order import RUN

PAGE = 4096
_workspace = threading.local()


@dataclass(frozen=True)
class Piece:
    """Inputs to take from one shard.

    Args:
        shard: The shard.
        wanted: Which of its inputs; a slice where they are consecutive.
        unit: Consecutive inputs that every number in `wanted` stands for.
    """

    shard: int
    wanted: slice | Array
    unit: int = 1

    def __len__(self) -> int:
        if isinstance(self.wanted, slice):
            return int(self.wanted.stop - self.wanted.start)
        return len(self.wanted) * self.unit

    @cached_property
    def rising(self) -> tuple[Array, Array]:
        """The numbers wanted in rising order, and the place of each in the result."""
        assert not isinstance(self.wanted, slice), "a slice rises as it is"
        places = np.argsort(self.wanted)
        return self.wanted[places], places


@dataclass(frozen=True)
class Stretch:
    """Some of the inputs to read, one after the other in the result.

    Args:
        pieces: Where they are, laid end to end.
        pick: Which of what was laid; None to take it as it is.
        unit: Consecutive inputs that every number in `pick` stands for.
    """

    pieces: list[Piece]
    pick: Array | None = None
    unit: int = 1

    def __len__(self) -> int:
        return self.laid if self.pick is None else len(self.pick) * self.unit

    @property
    def laid(self) -> int:
        """Inputs in all pieces."""
        return sum(map(len, self.pieces))


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
        follows = numbers[1:] - numbers[:-1] == 1
        consecutive = bool(follows.all())
        ends = numbers[[0, -1]] if consecutive else numbers
        lowest, highest = int(ends.min()), int(ends.max())
        if lowest < 0 or highest >= len(part):
            raise DataError(
                f"There is no input {lowest if lowest < 0 else highest} in part {part.name!r}, "
                f"which has {len(part)}."
            )
        if consecutive:
            return cls(part, [_consecutive(part, int(numbers[0]), int(numbers[-1]) + 1)])
        # Runs may be cut at both ends: there a batch begins or ends.
        first = int(-numbers[0] % RUN)
        last = n - (n - first) % RUN
        runs = numbers[first:last:RUN]
        if first < last and _in_runs(part, runs, follows[first : last - 1]):
            stretches = [_scattered(part, runs, RUN)]
            if first:
                stretches.insert(0, _scattered(part, numbers[:first]))
            if last < n:
                stretches.append(_scattered(part, numbers[last:]))
            return cls(part, stretches)
        return cls(part, [_scattered(part, numbers)])

    def fixed(self, name: str, out: Array) -> None:
        """Fill `out` with the inputs' rows of an array of fixed width."""
        start = 0
        for stretch in self.stretches:
            stop = start + len(stretch)
            self._fill(stretch, name, out[start:stop])
            start = stop

    def lists(self, name: str) -> Ragged:
        """The inputs' lists of a column."""
        if not self.stretches:
            none = np.empty(0, dtype=list_fields(self.part.schema)[name])
            return Ragged(none, np.zeros(1, dtype=np.int64))
        taken = []
        for stretch in self.stretches:
            laid = _join_lists(
                [
                    _take_lists(self.part.shards[p.shard].lists[name], _each(p.wanted, p.unit))
                    for p in stretch.pieces
                ]
            )
            if stretch.pick is not None:
                laid = _take_lists(laid, _each(stretch.pick, stretch.unit))
            taken.append(laid)
        return _join_lists(taken)

    def _fill(self, stretch: Stretch, name: str, out: Array) -> None:
        laid = out if stretch.pick is None else _scratch((stretch.laid, *out.shape[1:]), out.dtype)
        start = 0
        for piece in stretch.pieces:
            source = self.part.shards[piece.shard].fixed()[name]
            stop = start + len(piece)
            if isinstance(piece.wanted, slice):
                laid[start:stop] = source[piece.wanted]
            elif piece.unit > 1:
                # Memory is read forward, which is faster, and written here and there.
                source, target = (_units(array, piece.unit) for array in (source, laid[start:stop]))
                copy_rows(source, *piece.rising, target)
            else:
                _take(source, piece.wanted, laid[start:stop], piece.unit)
            start = stop
        if stretch.pick is not None:
            _take(laid, stretch.pick, out, stretch.unit)


def _in_runs(part: Part, starts: Array, follows: Array) -> bool:
    """Whether inputs are whole runs, each inside one shard and where a run begins.

    Args:
        part: Where the inputs are.
        starts: Every RUN-th input.
        follows: Whether each input but the first is the one after that before it.
    """
    if any(start % RUN for start in part.starts[:-1]) or bool(np.any(starts & (RUN - 1))):
        return False
    breaks = np.flatnonzero(~follows)
    return not np.any((breaks + 1) % RUN)


def _consecutive(part: Part, start: int, stop: int) -> Stretch:
    """Consecutive inputs, which may lie in several shards."""
    pieces = []
    for shard, first in enumerate(part.starts[:-1]):
        begin, end = max(start, first), min(stop, part.starts[shard + 1])
        if begin < end:
            pieces.append(Piece(shard, slice(begin - first, end - first)))
    return Stretch(pieces)


def _scattered(part: Part, numbers: Array, unit: int = 1) -> Stretch:
    """Inputs, or runs of `unit` inputs, each read where it lies, shard by shard."""
    if len(part.shards) == 1:
        return Stretch([Piece(0, numbers // unit, unit)])
    shards = np.zeros(len(numbers), dtype=np.uint16 if len(part.shards) < 2**16 else np.int64)
    for start in part.starts[1:-1]:  # far cheaper than a search for each number
        shards += numbers >= start
    order = np.argsort(shards, kind="stable")
    ends = np.cumsum(np.bincount(shards, minlength=len(part.shards)))
    by_shard = numbers[order]
    pieces = []
    for shard, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        if begin < end:
            wanted = (by_shard[begin:end] - part.starts[shard]) // unit
            pieces.append(Piece(shard, wanted, unit))
    pick = np.empty(len(numbers), dtype=np.int64)
    pick[order] = np.arange(len(numbers))
    return Stretch(pieces, pick, unit)


def _each(wanted: slice | Array, unit: int) -> slice | Array:
    """The inputs that these units stand for."""
    if unit == 1 or isinstance(wanted, slice):
        return wanted
    return (wanted[:, None] * unit + np.arange(unit)).reshape(-1)


def _take(source: Array, wanted: Array, out: Array, unit: int) -> None:
    """Copy the wanted units of the source."""
    if unit > 1:
        source, out = _units(source, unit), _units(out, unit)
    np.take(source, wanted, axis=0, out=out, mode="clip")  # the other modes make a copy first


def _units(array: Array, unit: int) -> Array:
    """The array with so many inputs in a row; a last one that is not whole is left out."""
    units = len(array) // unit
    return array[: units * unit].reshape(units, -1)


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


def _scratch(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    """An array of this thread's own, which the next call overwrites."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize + PAGE
    memory = getattr(_workspace, "bytes", None)
    if memory is None or memory.nbytes < size:
        memory = _workspace.bytes = np.empty(size, dtype=np.uint8)
    return np.ndarray(shape, dtype, memory, page_start(memory))
