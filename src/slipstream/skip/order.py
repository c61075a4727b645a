"""An order with some inputs left out: what is left makes full batches, in the same order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from slipstream.compiled import compiled
from slipstream.data.inputs import Array
from slipstream.order import Chunk, Cut, Order, check_share
from slipstream.order.batching import as_array, share_of
from slipstream.skip.decision import Decision, Decisions

_AT_ONCE = 1 << 14  # inputs that are judged together
_NONE = np.empty(0, dtype=np.int64)


class Verdict(NamedTuple):
    """Which inputs are trained, and what is added to the logit of each in the loss, or None."""

    train: Array
    logit_offset: Array | None = None


class Judge(Protocol):
    """Judges inputs by a decision: a pure function of the two."""

    def __call__(self, decision: Decision, positions: Array, numbers: Array) -> Verdict:
        """The verdict on the inputs of these numbers, which stand at these positions."""


class Skipped:
    """An order of which some inputs are skipped.

    Each input is judged by the decision that holds for the batch that is being filled when its
    turn comes. A batch is short only where the order itself ends one, or where it would use up
    too many inputs: the next decision comes after a step, and waits for it. An input that is
    skipped is used up with the batch behind it; where none follows before a batch ends, a batch
    without inputs says so.

    Args:
        base: The order of all inputs.
        judge: Judges them.
        decisions: Which decision holds for which batch.
        most: The most inputs that a batch uses up, for each rank, skipped ones counted; None is
            any number.

    Example:
        >>> from slipstream.order import InputOrder
        >>> decisions = Decisions(lag=100)
        >>> taken = decisions.take(0.5, {})
        >>> decisions.done = 100
        >>> odd = lambda decision, positions, numbers: Verdict(numbers % 2 == 1)
        >>> [cut.numbers.tolist() for cut in Skipped(InputOrder(11), odd, decisions).cuts(0, 2)]
        [[1, 3], [5, 7], [9]]
    """

    def __init__(
        self, base: Order, judge: Judge, decisions: Decisions, most: int | None = None
    ) -> None:
        self.base, self._judge, self.decisions, self._most = base, judge, decisions, most
        self._batch_at: dict[int, int] = {}
        self._asked: int | None = None  # the batch that was last asked for, if it is judged here

    @property
    def rows(self) -> int:
        """Inputs in the part."""
        return self.base.rows

    def __len__(self) -> int:
        return len(self.base)

    def arguments(self) -> dict[str, Any]:
        """What makes it another sequence if it differs, and the number of epochs."""
        return self.base.arguments()

    def asks(self, position: int) -> int | None:
        """The number of the decision about the order that needs the loss at a position."""
        return self.base.asks(position)

    def tell(self, number: int, loss: float) -> None:
        """The loss for a decision about the order."""
        self.base.tell(number, loss)

    def chunks(self, start: int = 0, step: int = 1) -> Iterator[Chunk | None]:
        """All inputs, piece by piece: what is left out depends on the batches."""
        return self.base.chunks(start, step)

    def cuts(
        self, position: int, batch_size: int, *, rank: int = 0, world_size: int = 1
    ) -> Iterator[Cut | None]:
        """The batches of one rank from a position on; None where the next one is not decided."""
        check_share(batch_size, rank, world_size)
        # A loader that begins anew at a batch it has handed out asks for that batch again.
        batch = self._batch_at.get(position, self.decisions.done + 1)
        most = None if self._most is None else self._most * world_size
        filling, by = _Filling(batch_size * world_size, most), self.decisions.last
        for chunk in self.base.chunks(position, batch_size * world_size):
            if chunk is None:
                self._asked = None
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
                        break  # the rest is for another decision to judge
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
        """Wait until the batch that was not decided is; another thread takes decisions."""
        assert self._asked is not None, "orders that wait for a loss themselves are read otherwise"
        self.decisions.wait_for(self._asked)

    def _decision_of(self, batch: int) -> Decision | None:
        self._asked = batch
        return self.decisions.of(batch)

    def _cut(
        self, filling: _Filling, after: int, by: Decision, batch: int, rank: int, world_size: int
    ) -> Cut:
        numbers, offset, skipped = filling.take()
        self._batch_at = {k: v for k, v in self._batch_at.items() if v > self.decisions.done}
        self._batch_at[after] = batch + 1
        # Of a full step, too, this is as many inputs for each rank.
        mine = share_of(len(numbers), rank, world_size)
        offset = None if offset is None else offset[mine]
        return Cut(numbers[mine], after, skipped, offset, by.number)


class _Filling:
    """The batch that is being filled."""

    def __init__(self, size: int, most: int | None) -> None:
        self._size, self._most = size, most
        self._clear()

    def _clear(self) -> None:
        self._numbers: list[Array] = []
        self._offsets: list[Array | None] = []
        self._skipped: list[Array] = []
        self._held = self._used = 0

    @property
    def full(self) -> bool:
        return self._held == self._size

    @property
    def ended(self) -> bool:
        """Whether it takes no more inputs."""
        return self.full or self._used == self._most

    @property
    def some(self) -> bool:
        """Whether any inputs wait to be used up, trained or skipped."""
        return bool(self._numbers)

    def add(self, numbers: Array, verdict: Verdict, first: int) -> int:
        """Take inputs from the first on, until the batch has ended; where it went on from there."""
        room = len(numbers) - first
        if self._most is not None:
            room = min(room, self._most - self._used)
        here, train = numbers[first : first + room], verdict.train[first : first + room]
        kept = np.empty(min(self._size - self._held, room), dtype=here.dtype)
        skipped = np.empty(room, dtype=here.dtype)
        used, held = _share_out(here, train, kept, skipped)
        self._numbers.append(kept[:held])
        self._skipped.append(skipped[: used - held])
        mine, offset = None, verdict.logit_offset
        if offset is not None:
            mine = np.empty(held, dtype=offset.dtype)
            _pick(offset[first : first + used], train, mine)
        self._offsets.append(mine)
        self._held += held
        self._used += used
        return first + used

    def take(self) -> tuple[Array, Array | None, Array]:
        """The inputs, what is added to their logits, and those that were skipped on the way."""
        numbers, skipped = np.concatenate(self._numbers), np.concatenate(self._skipped)
        offset = None
        if any(one is not None for one in self._offsets):
            pairs = zip(self._numbers, self._offsets, strict=True)
            offset = np.concatenate(
                [np.zeros(len(n), np.float32) if one is None else one for n, one in pairs]
            )
        self._clear()
        return numbers, offset, skipped


@compiled
def _share_out(numbers: Array, train: Array, kept: Array, skipped: Array) -> tuple[int, int]:
    """Put inputs where those go that are trained, or skipped, until the first are full.

    Returns:
        How many inputs were used, and how many of them are trained.
    """
    held = 0
    for k in range(len(numbers)):
        if train[k]:
            kept[held] = numbers[k]
            held += 1
            if held == len(kept):
                return k + 1, held
        else:
            skipped[k - held] = numbers[k]
    return len(numbers), held


@compiled
def _pick(values: Array, train: Array, out: Array) -> None:
    """Put values where those go whose inputs are trained."""
    held = 0
    for k in range(len(values)):
        if train[k]:
            out[held] = values[k]
            held += 1
