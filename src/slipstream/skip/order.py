"""An order without the skipped examples: the others make full batches, in the same order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from slipstream.arrays import Array
from slipstream.order import Chunk, Cut, Order, check_share
from slipstream.order.batching import as_array, share_of
from slipstream.skip.decision import Decision, Decisions
from slipstream.skip.judge import Verdict

_AT_ONCE = 1 << 14  # examples that are judged together


class RebatchedOrder:
    """An order of the examples of another one, in other batches."""

    def __init__(self, base: Order) -> None:
        self.base, self.examples = base, base.examples

    def __len__(self) -> int:
        return len(self.base)

    def arguments(self) -> dict[str, Any]:
        """The arguments that determine the sequence, and the number of epochs."""
        return self.base.arguments()

    def pending_decision(self, position: int) -> int | None:
        """The number of the decision about the order that needs the loss at a position."""
        return self.base.pending_decision(position)

    def report_loss(self, number: int, loss: float) -> None:
        """Receive the loss for a decision about the order."""
        self.base.report_loss(number, loss)

    def chunks(self, start: int = 0, step: int = 1) -> Iterator[Chunk | None]:
        """All examples, piece by piece: the skipped ones depend on the batches."""
        return self.base.chunks(start, step)


class SkippingOrder(RebatchedOrder):
    """An order of which some examples are skipped.

    Each example is judged by the decision for the batch that is being filled. A batch is short
    only where the order itself ends a batch, or where it would use up too many examples: the next
    decision comes after a step, and waits for it. A skipped example is used up with the batch
    behind it; where no example follows before a batch ends, that batch has no examples.

    Args:
        base: The order of all examples.
        judge: Judges examples at positions by a decision; depends on nothing else.
        decisions: The decision for each batch.
        most: The most examples that a batch uses up, for each rank, skipped ones counted; None is
            any number.

    Example:
        >>> from slipstream.order import InputOrder
        >>> decisions = Decisions(lag=100)
        >>> decisions.take(0.5, {})
        >>> decisions.done = 100
        >>> odd = lambda decision, positions, numbers: Verdict(numbers % 2 == 1)
        >>> order = SkippingOrder(InputOrder(11), odd, decisions)
        >>> [cut.example_numbers.tolist() for cut in order.cuts(0, 2)]
        [[1, 3], [5, 7], [9]]
    """

    def __init__(
        self,
        base: Order,
        judge: Callable[[Decision, Array, Array], Verdict],
        decisions: Decisions,
        most: int | None = None,
    ) -> None:
        super().__init__(base)
        self._judge, self.decisions, self._most = judge, decisions, most
        self._batch_at: dict[int, int] = {}
        self._undecided: int | None = None  # the batch that waits for a decision

    def cuts(
        self, position: int, batch_size: int, *, rank: int = 0, world_size: int = 1
    ) -> Iterator[Cut | None]:
        """The batches of one rank from a position on; None where the next one is not decided."""
        check_share(batch_size, rank, world_size)
        # A loader that starts again at a batch that it has returned reads that batch again.
        batch = self._batch_at.get(position, self.decisions.done + 1)
        most = None if self._most is None else self._most * world_size
        filling, by = _Filling(batch_size * world_size, most), self.decisions.all[-1]

        def cut(next_position: int) -> Cut:
            nonlocal batch
            batch += 1
            self._batch_at = {k: v for k, v in self._batch_at.items() if v > self.decisions.done}
            self._batch_at[next_position] = batch
            return filling.cut(next_position, by.number, rank, world_size)

        for chunk in self.base.chunks(position, batch_size * world_size):
            if chunk is None:
                self._undecided = None
                yield None
                continue
            at = 0
            while at < len(chunk.example_numbers):
                while (now := self._decision_of(batch)) is None:
                    yield None
                by = now
                some = slice(at, at + _AT_ONCE)
                positions, numbers = (
                    as_array(chunk.positions[some]),
                    as_array(chunk.example_numbers[some]),
                )
                verdict = self._judge(by, positions, numbers)
                trained = np.flatnonzero(verdict.train)
                used = 0
                while used < len(numbers):
                    while (now := self._decision_of(batch)) is None:
                        yield None
                    if now.number != by.number:
                        break  # another decision judges the rest
                    used = filling.add(numbers, verdict, trained, used)
                    if filling.ended:
                        yield cut(int(positions[used - 1]) + 1)
                at += used
            if chunk.ends and filling.some:
                yield cut(int(chunk.positions[-1]) + 1)
        if filling.some:
            yield cut(len(self))

    def wait(self) -> None:
        """Wait until another thread has taken the decision for the next batch."""
        assert self._undecided is not None, "an order that waits for a loss is not read by threads"
        self.decisions.wait_for(self._undecided)

    def _decision_of(self, batch: int) -> Decision | None:
        self._undecided = batch
        return self.decisions.of(batch)


class _Filling:
    """The batch that is being filled."""

    def __init__(self, size: int, most: int | None) -> None:
        self._size, self._most = size, most
        self._clear()

    def _clear(self) -> None:
        self._numbers: list[Array] = []
        self._offsets: list[Array] = []  # of all pieces, or none
        self._skipped: list[Array] = []
        self._trained = self._used = 0

    @property
    def ended(self) -> bool:
        """Whether it takes no more examples."""
        return self._trained == self._size or self._used == self._most

    @property
    def some(self) -> bool:
        """Whether any examples wait to be used up, trained or skipped."""
        return self._used > 0

    def add(self, numbers: Array, verdict: Verdict, trained: Array, first: int) -> int:
        """Take examples from the first on until the batch ends; returns the index of the next.

        Args:
            numbers: The examples.
            verdict: The verdict on them.
            trained: The indices of those to be trained.
            first: The index of the first to take.
        """
        last = len(numbers)
        if self._most is not None:
            last = min(last, first + self._most - self._used)
        full = int(np.searchsorted(trained, first)) + self._size - self._trained - 1
        if full < len(trained):
            last = min(last, int(trained[full]) + 1)
        here, train = numbers[first:last], verdict.train[first:last]
        self._numbers.append(here[train])
        self._skipped.append(here[~train])
        if verdict.logit_offset is not None:
            self._offsets.append(verdict.logit_offset[first:last][train])
        self._trained += len(self._numbers[-1])
        self._used += last - first
        return last

    def cut(self, next_position: int, decision: int, rank: int, world_size: int) -> Cut:
        """One rank's share of the batch, which is then empty again."""
        numbers, skipped = np.concatenate(self._numbers), np.concatenate(self._skipped)
        share = share_of(len(numbers), rank, world_size)
        offset = np.concatenate(self._offsets)[share] if self._offsets else None
        self._clear()
        return Cut(numbers[share], next_position, skipped, offset, decision)
