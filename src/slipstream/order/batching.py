"""Cuts a sequence of inputs into batches, and a batch into one piece for each rank."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from slipstream.arrays import Array
from slipstream.errors import ConfigError

Numbers = Array | range
"""Some numbers; a range where all follow one another, and whoever gives them knows it."""


class Chunk(NamedTuple):
    """Consecutive inputs of an order: where each stands in it, and its number in the part.

    Args:
        positions: Where each stands.
        numbers: Its number in the part.
        ends: Whether a batch ends with the last of them, full or not.
    """

    positions: Numbers
    numbers: Numbers
    ends: bool = False


class Cut(NamedTuple):
    """The inputs of one batch on one rank, and the position at which the next batch begins.

    Args:
        numbers: The inputs.
        next_position: Where the next batch begins.
        skipped: The inputs between the batch before and the next that are not trained, of all
            ranks; None where nothing decides about that.
        logit_offset: Added to the logit of each input in the loss, or None.
        decision: The number of the decision by which inputs were skipped.
    """

    numbers: Numbers
    next_position: int
    skipped: Array | None = None
    logit_offset: Array | None = None
    decision: int = 0


def into_batches(
    chunks: Iterable[Chunk | None], batch_size: int, *, rank: int = 0, world_size: int = 1
) -> Iterator[Cut | None]:
    """Full batches of `batch_size` inputs for this rank; short only where a chunk ends them.

    The last batch may be short too. None, where the next chunk is not decided yet, is passed on.

    The inputs of a step are taken off the sequence for all ranks together, then shared out in
    order. So every rank makes the same number of steps, together they consume every input once,
    and a position means the same in a world of any size. Chunks may have gaps in their
    positions: what was left out of the sequence does not make batches smaller.

    Example:
        >>> from slipstream.order import InputOrder
        >>> [list(cut.numbers) for cut in into_batches(InputOrder(5).chunks(), 2)]
        [[0, 1], [2, 3], [4]]
    """
    check_share(batch_size, rank, world_size)
    step = batch_size * world_size
    left: deque[Chunk] = deque()
    held = 0
    for chunk in chunks:
        if chunk is None:
            yield None
            continue
        left.append(chunk)
        held += len(chunk.numbers)
        while held >= step:
            positions, numbers = _taken(left, step)
            yield Cut(numbers[rank * batch_size :][:batch_size], int(positions[-1]) + 1)
            held -= step
        if held and chunk.ends:
            yield _short(left, held, rank, world_size)
            held = 0
    if held:
        yield _short(left, held, rank, world_size)


def _short(left: deque[Chunk], held: int, rank: int, world_size: int) -> Cut:
    positions, numbers = _taken(left, held)
    return Cut(numbers[share_of(held, rank, world_size)], int(positions[-1]) + 1)


def _taken(left: deque[Chunk], count: int) -> tuple[Numbers, Numbers]:
    """The positions and numbers of the first inputs of some chunks, which are taken off these."""
    taken = []
    while count:
        positions, numbers, _ = left.popleft()
        taken.append((positions[:count], numbers[:count]))
        if len(numbers) > count:
            left.appendleft(Chunk(positions[count:], numbers[count:]))
        count -= len(taken[-1][1])
    where, which = zip(*taken, strict=True)
    return joined(where), joined(which)


def share_of(inputs: int, rank: int, world_size: int) -> slice:
    """One rank's share of a step with fewer inputs than fit."""
    start, stop = (inputs * r // world_size for r in (rank, rank + 1))
    return slice(start, stop)


def check_share(batch_size: int, rank: int, world_size: int) -> None:
    """Raise an error unless this is a share that a rank can take."""
    if batch_size < 1:
        raise ConfigError(f"batch_size is {batch_size}; it must be at least 1.")
    if not 0 <= rank < world_size:
        ranks = "0" if world_size == 1 else f"0 to {world_size - 1}"
        raise ConfigError(
            f"rank is {rank} and world_size {world_size}; a rank of such a world is {ranks}."
            if world_size > 0
            else f"world_size is {world_size}; it must be at least 1 (rank is {rank})."
        )


def joined(some: Sequence[Numbers], out: Array | None = None) -> Numbers:
    """Numbers one behind the other: a range, if they are one all together.

    Args:
        some: The numbers.
        out: Where to put them, if they are no range.
    """
    ranges = [one for one in some if isinstance(one, range)]
    if len(ranges) == len(some) and all(a.stop == b.start for a, b in pairwise(ranges)):
        return range(ranges[0].start, ranges[-1].stop)
    if len(some) == 1 and out is None:
        return some[0]
    return np.concatenate([as_array(one) for one in some], out=out)


def as_array(numbers: Numbers) -> Array:
    """The same numbers, in memory."""
    return np.arange(numbers.start, numbers.stop) if isinstance(numbers, range) else numbers
