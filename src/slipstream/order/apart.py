"""FAE's order: batches of hot examples and batches of cold ones, which alternate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from slipstream.arrays import Array
from slipstream.errors import ConfigError
from slipstream.order.batching import Chunk, Cut, check_share, into_batches
from slipstream.order.order import InputOrder
from slipstream.order.scheduler import MOST, Rates

_AT_ONCE = 1 << 15  # examples that are classified at once

SEGMENT = 64
"""Batches of a segment: the rate settles after a few, and few batches wait for it."""


class Segment(NamedTuple):
    """Positions whose hot and cold examples are separated, and its number over all epochs."""

    number: int
    start: int
    stop: int


def segment_at(position: int, per_epoch: int, size: int) -> Segment:
    """The segment of a position; the last segment of an epoch takes the rest of it.

    Example:
        >>> segment_at(9, per_epoch=10, size=4)
        Segment(number=1, start=4, stop=10)
    """
    count = max(1, per_epoch // size)
    epoch, within = divmod(position, per_epoch)
    place = min(within // size, count - 1)
    start = epoch * per_epoch
    stop = per_epoch if place == count - 1 else (place + 1) * size
    return Segment(epoch * count + place, start + place * size, start + stop)


class Apart:
    """An order in which no batch mixes hot and cold examples.

    The sequence of another order is cut into segments. Inside a segment the hot examples and the
    cold ones, each in their order, make batches of their own, and these alternate at the segment's
    rate. So every example is trained as often as before, and at the end of a segment the same
    examples have been consumed. The last segment of an epoch takes the rest of it.

    Args:
        base: The order that is cut into segments.
        hot: Returns for example numbers whether each is hot.
        segment: Examples of a segment.
        rates: The rate at which the batches of each segment alternate.
        digest: Identifies the function `hot`: with another digest it is another order.

    Example:
        >>> order = Apart(InputOrder(12), lambda numbers: numbers % 3 == 0, 12, Rates())
        >>> [cut.numbers.tolist() for cut in order.cuts(0, 2)]
        [[1, 2], [4, 5], [0, 3], [7, 8], [10, 11], [6, 9]]
    """

    def __init__(
        self,
        base: InputOrder,
        hot: Callable[[Array], Array],
        segment: int,
        rates: Rates,
        digest: str = "",
    ) -> None:
        if segment < 1:
            raise ConfigError(f"A segment has {segment} examples; it must have at least 1.")
        self.base, self.segment, self.rates = base, segment, rates
        self._hot, self._digest = hot, digest

    @property
    def rows(self) -> int:
        """Examples in the part."""
        return self.base.rows

    def __len__(self) -> int:
        return len(self.base)

    def arguments(self) -> dict[str, Any]:
        """The arguments that define the sequence, and the number of epochs."""
        return self.base.arguments() | {
            "segment": self.segment,
            "lag": self.rates.lag,
            "hot": self._digest,
        }

    def pending_decision(self, position: int) -> int | None:
        """The last segment that has ended, if its loss is not reported yet and others follow."""
        if self.rates.fixed is not None or not 0 < position < len(self):
            return None
        ended = self.segment_at(position).number - 1  # of several the last: some had no batch
        return ended if ended > self.rates.last else None

    def report_loss(self, number: int, loss: float) -> None:
        """Receive the loss at the end of a segment, which the rates of later segments follow."""
        self.rates.report_loss(number, loss)

    def segment_at(self, position: int) -> Segment:
        """The segment of a position."""
        return segment_at(position, self.base.per_epoch, self.segment)

    def chunks(self, start: int = 0, step: int = 1) -> Iterator[Chunk | None]:
        """Runs of one kind from a position on, each ending a batch; None while undecided."""
        while start < len(self):
            segment = self.segment_at(start)
            while (rate := self.rates.of(segment.number)) is None:
                yield None
            at = segment.start
            for numbers in self._runs(segment, step, rate):
                for k in range(max(0, start - at), len(numbers), _AT_ONCE):
                    piece = numbers[k : k + _AT_ONCE]
                    positions = range(at + k, at + k + len(piece))
                    yield Chunk(positions, piece, ends=k + len(piece) == len(numbers))
                at += len(numbers)
            start = segment.stop

    def cuts(
        self, position: int, batch_size: int, *, rank: int = 0, world_size: int = 1
    ) -> Iterator[Cut | None]:
        """The batches of one rank from a position on; None while the next rate is not decided."""
        check_share(batch_size, rank, world_size)
        chunks = self.chunks(position, batch_size * world_size)
        return into_batches(chunks, batch_size, rank=rank, world_size=world_size)

    def _runs(self, segment: Segment, step: int, rate: int) -> Iterator[Array]:
        """A segment's runs of steps of one kind: cold ones, hot ones, and so on."""
        numbers = self.base.numbers(segment.start, segment.stop)
        blocks = range(0, len(numbers), _AT_ONCE)
        hot = np.concatenate([self._hot(numbers[k : k + _AT_ONCE]) for k in blocks])
        turns = -(-MOST // rate)
        kinds = [(kind, -(-len(kind) // step)) for kind in (numbers[~hot], numbers[hot])]
        for turn in range(turns):
            for kind, steps in kinds:
                first, last = (steps * t // turns for t in (turn, turn + 1))
                yield kind[first * step : last * step]
