"""An order without the skipped examples: the others make full batches, in the same order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from slipstream.arrays import Array
from slipstream.compiled import compiled
from slipstream.order import Chunk, Cut, Order, check_share
from slipstream.order.batching import as_array, share_of
from slipstream.skip.decision import Decision, Decisions

_AT_ONCE = 1 << 14  # examples that are judged together


class Verdict(NamedTuple):
    """Whether each example is trained, and what is added to its logit in the loss, or None."""

    train: Array
    logit_offset: Array | None = None


class Judge(Protocol):
    """Judges examples by a decision: a pure function of the two."""

    def __call__(self, decision: Decision, positions: Array, numbers: Array) -> Verdict:
        """The verdict on the examples of these numbers at these positions."""


class SkippingOrder:
    """An order of which some examples are skipped.

    Each example is judged by the decision for the batch that is being filled. A batch is short
    only where the order itself ends a batch, or where it would use up too many examples: the next
    decision comes after a step, and waits for it. A skipped example is used up with the batch
    behind it; where no example follows before a batch ends, that batch has no examples.

    Args:
        base: The order of all examples.
        judge: Judges them.
        decisions: The decision for each batch.
        most: The most examples that a batch uses up, for each rank, skipped ones counted; None is
            any number.

    Example:
        >>> from slipstream.order import InputOrder
        >>> decisions = Decisions(lag=100)
        >>> _ = decisions.take(0.5, {})
        >>> decisions.done = 100
        >>> odd = lambda decision, positions, numbers: Verdict(numbers % 2 == 1)
        >>> order = SkippingOrder(InputOrder(11), odd, decisions)
        >>> [cut.numbers.tolist() for cut in order.cuts(0, 2)]
        [[1, 3], [5, 7], [9]]
    """

    def __init__(
        self, base: Order, judge: Judge, decisions: Decisions, most: int | None = None
    ) -> None:
        self.base, self._judge, self.decisions, self._most = base, judge, decisions, most
        self.rows = base.rows
        self._batch_at: dict[int, int] = {}
        self._undecided: int | None = None  # the batch that waits for a decision

    def __len__(self) -> int:
        return len(self.base)

    def arguments(self) -> dict[str, Any]:
        """The arguments that determine the sequence, and the number of epochs."""
        return self.base.arguments()

    def pending_decision(self, position: int) -> int | None:
        """The number of the decision about the order that needs the loss at a position."""
        return self.base.pending_decision(position)

    def report_loss(self, number: int, loss: float) -> None:
        """The loss for a decision about the order."""
        self.base.report_loss(number, loss)

    def chunks(self, start: int = 0, step: int = 1) -> Iterator[Chunk | None]:
        """All examples, piece by piece: the skipped ones depend on the batches."""
        return self.base.chunks(start, step)

    def cuts(
        self, position: int, batch_size: int, *, rank: int = 0, world_size: int = 1
    ) -> Iterator[Cut | None]:
        """The batches of one rank from a position on; None where the next one is not decided."""
        check_share(batch_size, rank, world_size)
        # A loader that starts again at a batch that it has returned reads that batch again.
        batch = self._batch_at.get(position, self.decisions.done + 1)
        most = None if self._most is None else self._most * world_size
        filling, by = _Filling(batch_size * world_size, most), self.decisions.last
        for chunk in self.base.chunks(position, batch_size * world_size):
            if chunk is None:
                self._undecided = None
                yield None
                continue
            at = 0
            while at < len(chunk.numbers):
                while (now := self._decision_of(batch)) is None:
                    yield None
                by = now
                some = slice(at, at + _AT_ONCE)
                positions, numbers = as_array(chunk.positions[some]), as_array(chunk.numbers[some])
                verdict = self._judge(by, positions, numbers)
                used = 0
                while used < len(numbers):
                    while (now := self._decision_of(batch)) is None:
                        yield None
                    if now.number != by.number:
                        break  # another decision judges the rest
                    used = filling.add(numbers, verdict, used)
                    if filling.ended:
                        after = int(positions[used - 1]) + 1
                        yield self._cut(filling, after, by, batch, rank, world_size)
                        batch += 1
                at += used
            if chunk.ends and filling.some:
                after = int(chunk.positions[-1]) + 1
                yield self._cut(filling, after, by, batch, rank, world_size)
                batch += 1
        if filling.some:
            yield self._cut(filling, len(self), by, batch, rank, world_size)

    def wait(self) -> None:
        """Wait until the next batch is decided; another thread takes decisions."""
        assert self._undecided is not None, "an order that waits for a loss is not read by threads"
        self.decisions.wait_for(self._undecided)

    def _decision_of(self, batch: int) -> Decision | None:
        self._undecided = batch
        return self.decisions.of(batch)

    def _cut(
        self, filling: _Filling, after: int, by: Decision, batch: int, rank: int, world_size: int
    ) -> Cut:
        numbers, offset, skipped = filling.take()
        self._batch_at = {k: v for k, v in self._batch_at.items() if v > self.decisions.done}
        self._batch_at[after] = batch + 1
        of_rank = share_of(len(numbers), rank, world_size)
        offset = None if offset is None else offset[of_rank]
        return Cut(numbers[of_rank], after, skipped, offset, by.number)


class _Filling:
    """The batch that is being filled."""

    def __init__(self, size: int, most: int | None) -> None:
        self._size, self._most = size, most
        self._clear()

    def _clear(self) -> None:
        self._numbers: list[Array] = []
        self._offsets: list[Array | None] = []
        self._skipped: list[Array] = []
        self._trained = self._used = 0

    @property
    def full(self) -> bool:
        return self._trained == self._size

    @property
    def ended(self) -> bool:
        """Whether it takes no more examples."""
        return self.full or self._used == self._most

    @property
    def some(self) -> bool:
        """Whether any examples wait to be used up, trained or skipped."""
        return bool(self._numbers)

    def add(self, numbers: Array, verdict: Verdict, first: int) -> int:
        """Take examples from the first on until the batch ends; returns the index of the next."""
        room = len(numbers) - first
        if self._most is not None:
            room = min(room, self._most - self._used)
        here, train = numbers[first : first + room], verdict.train[first : first + room]
        batch = np.empty(min(self._size - self._trained, room), dtype=here.dtype)
        skipped = np.empty(room, dtype=here.dtype)
        used, trained = _split(here, train, batch, skipped)
        self._numbers.append(batch[:trained])
        self._skipped.append(skipped[: used - trained])
        offset = verdict.logit_offset
        if offset is not None:
            offset = offset[first : first + used][train[:used]]
        self._offsets.append(offset)
        self._trained += trained
        self._used += used
        return first + used

    def take(self) -> tuple[Array, Array | None, Array]:
        """The examples, what is added to their logits, and the examples skipped before them."""
        numbers, skipped = np.concatenate(self._numbers), np.concatenate(self._skipped)
        offset = None
        if (offsets := [piece for piece in self._offsets if piece is not None]) != []:
            offset = np.concatenate(offsets)  # either all pieces have one, or none
        self._clear()
        return numbers, offset, skipped


@compiled
def _split(numbers: Array, train: Array, batch: Array, skipped: Array) -> tuple[int, int]:
    """Write trained examples into a batch and others behind each other, until the batch is full.

    Returns:
        How many examples were used, and how many of them are trained.
    """
    trained = 0
    for k in range(len(numbers)):
        if train[k]:
            batch[trained] = numbers[k]
            trained += 1
            if trained == len(batch):
                return k + 1, trained
        else:
            skipped[k - trained] = numbers[k]
    return len(numbers), trained
