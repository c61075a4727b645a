"""FAE's order: batches of hot and of cold examples alternate, at a rate that follows the loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from slipstream.arrays import Array
from slipstream.errors import ConfigError
from slipstream.order.batching import Chunk, Cut, check_share, into_batches
from slipstream.order.order import InputOrder

_AT_ONCE = 1 << 15  # examples that are classified at once
_START, _LEAST, _MOST = 50, 1, 100  # rates
_FALLS = 4  # in a row, before the rate is doubled

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


class Rates:
    """The rate of each segment: the per cent of it that is trained before hot and cold alternate.

    A high rate alternates seldom, which is cheap; a low rate mixes more finely. It starts at 50, is
    halved when the loss rises, and doubled after four falls in a row, between 1 and 100. The
    decision at the end of segment s holds from segment s + lag on, so that it does not affect
    batches that are read ahead. With `fixed`, all segments have that rate.

    Example:
        >>> rates = Rates(lag=1)
        >>> for segment, loss in enumerate([0.6, 0.7, 0.6, 0.5, 0.4, 0.3]):
        ...     rates.report_loss(segment, loss)
        >>> [rates.of(segment) for segment in range(8)]
        [50, 50, 25, 25, 25, 25, 50, None]
    """

    def __init__(self, lag: int = 2, fixed: int | None = None) -> None:
        if lag < 1:
            raise ConfigError(f"The lag is {lag} segments; it must be at least 1.")
        if fixed is not None and not _LEAST <= fixed <= _MOST:
            raise ConfigError(f"The rate is {fixed} %; it must be {_LEAST} to {_MOST}.")
        self.lag, self.fixed = lag, fixed
        self._decided: list[tuple[int, int]] = []  # segment, and the rate that follows from it
        self._loss: float | None = None
        self._falls = 0

    @property
    def last(self) -> int:
        """The last segment whose loss was reported; -1 before the first."""
        return self._decided[-1][0] if self._decided else -1

    def report_loss(self, segment: int, loss: float) -> None:
        """Receive the loss at the end of a segment."""
        if segment <= self.last:
            raise ConfigError(f"The loss of segment {segment} comes after that of {self.last}.")
        rate = self._decided[-1][1] if self._decided else _START
        if self._loss is not None and loss > self._loss:
            rate, self._falls = max(_LEAST, rate // 2), 0
        elif self._loss is not None and loss < self._loss:
            self._falls += 1
            if self._falls == _FALLS:
                rate, self._falls = min(_MOST, rate * 2), 0
        self._loss = loss
        self._decided.append((segment, rate))

    def of(self, segment: int) -> int | None:
        """The rate of a segment; None if it is not decided yet."""
        if self.fixed is not None:
            return self.fixed
        decides = segment - self.lag
        if decides > self.last:
            return _START if decides < 0 else None
        earlier = (rate for at, rate in reversed(self._decided) if at <= decides)
        return next(earlier, _START)


@dataclass(eq=False)
class Apart:
    """An order in which no batch mixes hot and cold examples.

    The sequence of another order is cut into segments. Inside a segment the hot and the cold
    examples, each in their order, make batches of their own, which alternate at the segment's rate.
    So every example is trained as often as before, in the same segment.

    Example:
        >>> order = Apart(InputOrder(12), lambda numbers: numbers % 3 == 0, 12, Rates())
        >>> [cut.example_numbers.tolist() for cut in order.cuts(0, 2)]
        [[1, 2], [4, 5], [0, 3], [7, 8], [10, 11], [6, 9]]
    """

    base: InputOrder  # the order that is cut into segments
    hot: Callable[[Array], Array]  # returns for example numbers whether each is hot
    segment: int  # examples of a segment
    rates: Rates  # how often the batches of each segment alternate
    digest: str = ""  # of the function `hot`

    def __post_init__(self) -> None:
        if self.segment < 1:
            raise ConfigError(f"A segment has {self.segment} examples; it must have at least 1.")

    @property
    def examples(self) -> int:
        """Examples in the part."""
        return self.base.examples

    def __len__(self) -> int:
        return len(self.base)

    def arguments(self) -> dict[str, Any]:
        """The arguments that define the sequence, and the number of epochs."""
        own = {"segment": self.segment, "lag": self.rates.lag, "hot": self.digest}
        return self.base.arguments() | own

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
        numbers = self.base.example_numbers(segment.start, segment.stop)
        blocks = range(0, len(numbers), _AT_ONCE)
        hot = np.concatenate([self.hot(numbers[k : k + _AT_ONCE]) for k in blocks])
        turns = -(-_MOST // rate)
        kinds = [(kind, -(-len(kind) // step)) for kind in (numbers[~hot], numbers[hot])]
        for turn in range(turns):
            for kind, steps in kinds:
                first, last = (steps * t // turns for t in (turn, turn + 1))
                yield kind[first * step : last * step]
