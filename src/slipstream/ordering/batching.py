"""Cuts a sequence of inputs into batches, and a batch into one piece for each rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from slipstream.data.inputs import Array
from slipstream.errors import ConfigError


class Chunk(NamedTuple):
    """Consecutive inputs of an order: where each stands in it, and its number in the part.

    Args:
        positions: Where each stands; a range where all follow one another.
        numbers: Its number in the part.
        ends: Whether a batch ends with the last of them, full or not.
    """

    positions: Array | range
    numbers: Array
    ends: bool = False

    def where(self, some: slice) -> Array:
        """Where some of the inputs stand."""
        found = self.positions[some]
        return np.arange(found.start, found.stop) if isinstance(found, range) else found


class Cut(NamedTuple):
    """The inputs of one batch on one rank, and the position at which the next batch begins.

    Args:
        numbers: The inputs; a range where all follow one another, and whoever cuts knows it.
        next_position: Where the next batch begins.
        skipped: The inputs between the batch before and the next that are not trained, of all
            ranks; None where nothing decides about that.
        logit_offset: Added to the logit of each input in the loss, or None.
        decision: The number of the decision by which inputs were skipped.
    """

    numbers: Array | range
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
        >>> from slipstream.ordering import InputOrder
        >>> [cut.numbers.tolist() for cut in into_batches(InputOrder(5).chunks(), 2)]
        [[0, 1], [2, 3], [4]]
    """
    check_share(batch_size, rank, world_size)
    step = batch_size * world_size
    left: list[Chunk] = []
    held = 0
    for chunk in chunks:
        if chunk is None:
            yield None
            continue
        left.append(chunk)
        held += len(chunk.numbers)
        if held >= step:
            positions, numbers = _joined(left)
            whole = held - held % step
            for first in range(0, whole, step):
                start = first + rank * batch_size
                after = int(positions[first + step - 1]) + 1
                yield Cut(numbers[start : start + batch_size], after)
            left = [Chunk(positions[whole:], numbers[whole:])] if whole < held else []
            held -= whole
        if held and chunk.ends:
            yield _short(left, rank, world_size)
            left, held = [], 0
    if held:
        yield _short(left, rank, world_size)


def _short(chunks: list[Chunk], rank: int, world_size: int) -> Cut:
    positions, numbers = _joined(chunks)
    return Cut(shared_out(numbers, rank, world_size), int(positions[-1]) + 1)


Numbers = TypeVar("Numbers", Array, range)


def shared_out(numbers: Numbers, rank: int, world_size: int) -> Numbers:
    """One rank's share of a step with fewer inputs than fit."""
    start, stop = (len(numbers) * r // world_size for r in (rank, rank + 1))
    return numbers[start:stop]


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


def _joined(chunks: list[Chunk]) -> tuple[Array | range, Array]:
    if len(chunks) == 1:
        return chunks[0][:2]
    numbers = np.concatenate([one.numbers for one in chunks])
    ranges = [one.positions for one in chunks if isinstance(one.positions, range)]
    if len(ranges) == len(chunks) and all(a.stop == b.start for a, b in pairwise(ranges)):
        return range(ranges[0].start, ranges[-1].stop), numbers
    return np.concatenate([one.where(slice(None)) for one in chunks]), numbers
