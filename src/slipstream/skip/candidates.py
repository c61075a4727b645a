"""Examples to be scored, and samples of those that are still to come."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.arrays import Array
from slipstream.order import InputOrder, as_array
from slipstream.skip.accesses import Accesses
from slipstream.skip.chance import uniform
from slipstream.skip.context import RunContext

_RUN = 32  # consecutive examples of a sample: they are read faster than examples one by one


@dataclass(frozen=True)
class Candidates:
    """Examples to be scored.

    Args:
        accesses: Their rows and labels.
        chance: A random number above 0 and at most 1 for each; a hash of its number and epoch.
        positions: Their positions in the order of the run.
    """

    accesses: Accesses
    chance: Array
    positions: Array

    def __len__(self) -> int:
        return len(self.chance)

    @property
    def labels(self) -> Array:
        """0 or 1 for each example."""
        return self.accesses.labels


def candidates_of(
    context: RunContext, numbers: Array, positions: Array, epochs: Array | int
) -> Candidates:
    """The examples of these numbers at these positions."""
    chance = uniform(context.seed, "judge", numbers, epochs)
    return Candidates(context.reader.read(numbers), chance, positions)


def sample_of(context: RunContext, start: int, stop: int, count: int) -> Candidates:
    """About `count` of the examples at positions start to stop, evenly spread."""
    size = max(0, min(stop, len(context.base)) - start)
    if size <= count:
        firsts, run = [start], size
    else:
        runs = max(1, count // _RUN)
        firsts, run = [start + (size - _RUN) * k // runs for k in range(runs)], _RUN
    if isinstance(context.order, InputOrder):
        pieces = [context.order.example_numbers(first, first + run) for first in firsts]
    else:
        coming = _coming(context, start, start + size)
        pieces = [coming[first - start : first - start + run] for first in firsts]
    positions = np.concatenate([np.arange(first, first + run) for first in firsts])
    epoch = start // max(1, context.base.per_epoch)  # the same for all, also behind its end
    return candidates_of(context, np.concatenate(pieces), positions, epoch)


def _coming(context: RunContext, start: int, stop: int) -> Array:
    """The examples at positions start to stop of an order that rearranges them.

    Where it is not decided yet how, they are those of whole segments, whose examples are the same
    in any order.
    """
    pieces = []
    for chunk in context.order.chunks(start, context.batch_size):
        if chunk is None or start == stop:
            break
        pieces.append(as_array(chunk.example_numbers[: stop - start]))
        start += len(pieces[-1])
    return np.concatenate([*pieces, context.base.example_numbers(start, stop)])
