"""What an order of examples provides, and how it is cut into batches and shares of ranks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from slipstream.arrays import Array
from slipstream.errors import ConfigError

Numbers = Array | range
"""Example numbers: a range where they are known to be consecutive."""


class Chunk(NamedTuple):
    """Consecutive examples of an order."""

    positions: Numbers  # of each in the order
    example_numbers: Numbers  # of each in the part
    ends: bool = False  # whether a batch ends after the last of them, full or not


class Cut(NamedTuple):
    """The examples of one batch on one rank."""

    example_numbers: Numbers
    next_position: int  # at which the next batch begins
    skipped: Array | None = None  # between the previous batch and the next, of all ranks
    logit_offset: Array | None = None  # added to the logit of each example in the loss
    decision: int = 0  # the number of the decision by which examples were skipped


class Order(Protocol):
    """A sequence of examples: a pure function of its arguments and of the reported losses."""

    @property
    def examples(self) -> int:
        """Examples in the part."""

    def __len__(self) -> int:
        """Positions in the whole sequence."""

    def chunks(self, start: int = 0, step: int = 1) -> Iterator[Chunk | None]:
        """The sequence from a position on, for steps of so many examples; None while undecided."""

    def cuts(
        self, position: int, batch_size: int, *, rank: int = 0, world_size: int = 1
    ) -> Iterator[Cut | None]:
        """The batches of one rank from a position on; None where the next one is not decided."""

    def arguments(self) -> dict[str, Any]:
        """The arguments that define the sequence, and the number of epochs."""

    def pending_decision(self, position: int) -> int | None:
        """The number of the decision that needs the loss at a position; None if there is none."""

    def report_loss(self, number: int, loss: float) -> None:
        """Receive the loss of the validation part for a decision; numbers rise."""


def into_batches(
    chunks: Iterable[Chunk | None], batch_size: int, *, rank: int = 0, world_size: int = 1
) -> Iterator[Cut | None]:
    """Batches of `batch_size` examples for this rank; None where the next chunk is not decided.

    A batch is short only at the end, and where a chunk ends it. The examples of a step are taken
    for all ranks together, then divided in order. So every rank makes the same number of steps, and
    a position means the same in a world of any size. Gaps in the positions of chunks do not make
    batches smaller.

    Example:
        >>> from slipstream.order import InputOrder
        >>> [list(cut.example_numbers) for cut in into_batches(InputOrder(5).chunks(), 2)]
        [[0, 1], [2, 3], [4]]
    """
    check_share(batch_size, rank, world_size)
    step = batch_size * world_size
    left: deque[Chunk] = deque()
    waiting = 0
    for chunk in chunks:
        if chunk is None:
            yield None
            continue
        left.append(chunk)
        waiting += len(chunk.example_numbers)
        while waiting >= step:
            positions, numbers = _take_first(left, step)
            yield Cut(numbers[rank * batch_size :][:batch_size], int(positions[-1]) + 1)
            waiting -= step
        if waiting and chunk.ends:
            yield _short_batch(left, waiting, rank, world_size)
            waiting = 0
    if waiting:
        yield _short_batch(left, waiting, rank, world_size)


def _short_batch(left: deque[Chunk], count: int, rank: int, world_size: int) -> Cut:
    positions, numbers = _take_first(left, count)
    return Cut(numbers[share_of(count, rank, world_size)], int(positions[-1]) + 1)


def _take_first(left: deque[Chunk], count: int) -> tuple[Numbers, Numbers]:
    """Remove the first examples from some chunks; return their positions and numbers."""
    pieces = []
    while count:
        positions, numbers, _ = left.popleft()
        pieces.append((positions[:count], numbers[:count]))
        if len(numbers) > count:
            left.appendleft(Chunk(positions[count:], numbers[count:]))
        count -= len(pieces[-1][1])
    return joined([piece[0] for piece in pieces]), joined([piece[1] for piece in pieces])


def share_of(inputs: int, rank: int, world_size: int) -> slice:
    """The share of one rank in a step that is not full."""
    start, stop = (inputs * r // world_size for r in (rank, rank + 1))
    return slice(start, stop)


def check_share(batch_size: int, rank: int, world_size: int) -> None:
    """Raise an error unless batch size, rank and world size fit each other."""
    if batch_size < 1:
        raise ConfigError(f"batch_size is {batch_size}; it must be at least 1.")
    if world_size < 1:
        raise ConfigError(f"world_size is {world_size}; it must be at least 1 (rank is {rank}).")
    if not 0 <= rank < world_size:
        ranks = "0" if world_size == 1 else f"0 to {world_size - 1}"
        raise ConfigError(
            f"rank is {rank} and world_size {world_size}; a rank of such a world is {ranks}."
        )


def joined(pieces: Sequence[Numbers], out: Array | None = None) -> Numbers:
    """Concatenated numbers: a range if the pieces form one, else an array (`out`, if given)."""
    ranges = [piece for piece in pieces if isinstance(piece, range)]
    if len(ranges) == len(pieces) and all(a.stop == b.start for a, b in pairwise(ranges)):
        return range(ranges[0].start, ranges[-1].stop)
    if len(pieces) == 1 and out is None:
        return pieces[0]
    return np.concatenate([as_array(piece) for piece in pieces], out=out)


def as_array(numbers: Numbers) -> Array:
    """The same numbers as an array."""
    return np.arange(numbers.start, numbers.stop) if isinstance(numbers, range) else numbers
