"""Slipstream as it was published: inputs whose rows moved less than a threshold are dropped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from slipstream.config import Skip
from slipstream.data.inputs import Array
from slipstream.skip.calendar import Calendar
from slipstream.skip.chance import uniform
from slipstream.skip.context import Context
from slipstream.skip.rule import ALL, Drawn, Rule, Sample
from slipstream.skip.search import Found, bisection
from slipstream.skip.snapshots import Snapshot
from slipstream.tables.plan import Plan

if TYPE_CHECKING:
    from slipstream.skip.classifier import Classifier

WARMUP = {"tbsm": 0.05}
TOLERANCE = {"tbsm": 0.02}
ROWS_OF_A_LIST = {"tbsm": 4}
"""What was published for TBSM; for DLRM, and here for other models, it is what stands below."""
_WARMUP, _TOLERANCE = 0.03, 0.08


class PublishedCalendar(Calendar):
    """When snapshots A and B are due: that is measured in hot inputs, trained and skipped.

    Args:
        context: The run.
        snapshot: Of the hot rows.
        first: Hot inputs before A.
        second: Hot inputs before B.
        every: Hot inputs from there to the next one, if it is repeated.

    Attributes:
        seen: Hot inputs so far.
        compared: Whether B has begun.
    """

    def __init__(
        self, context: Context, snapshot: Snapshot, first: int, second: int, every: int
    ) -> None:
        super().__init__(context, snapshot)
        self._first, self.second, self._every = first, second, every
        self.seen, self.compared = 0, False

    def due(self, plan: Plan, before: int) -> bool:
        """Have A and B begin when they are due; a decision is with the end of B."""
        del before
        turns, repeat = self.turns, self.context.keys.repeat
        ended = turns.go_on() and turns.compares
        had = self.seen
        for numbers in (plan.numbers[: plan.n_valid].numpy(), plan.skipped):
            if numbers is not None:
                self.seen += int(self.context.hot_rows(numbers).sum())
        if plan.next_position >= len(self.context.base):
            return False
        if not turns.taken:
            # At the earliest with the first hot inputs: before them nothing of theirs has moved.
            if self.seen >= max(1, self._first):
                turns.begin()
            return False
        if self.seen < self.second:
            return False
        passed = [(at - self.second) // self._every for at in (had, self.seen)]
        if not self.compared or (repeat and passed[1] > passed[0]):
            self.compared = True
            comparing = turns.under_way and turns.compares
            turns.finish()
            if ended or comparing:
                return True
            return turns.begin(renew=bool(repeat))
        return ended


class Published(Rule):
    """Snapshot A after `skip.warmup_batches` hot batches, B after a share of all hot ones more.

    A hot row is stale if no element of it moved by the threshold or more in between. A hot input is
    dropped for good if enough of its rows are stale. Decided once, unless `skip.repeat` is set.
    """

    NEEDS_HOT: ClassVar[bool] = True
    MAKES_UP: ClassVar[bool] = False
    GATHERED: ClassVar[int] = 5
    FROZEN: ClassVar[int] = 4

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        keys, size = self.keys, context.batch_size
        hot = context.hot_rows.inputs[: context.base.per_epoch]
        self._hot_inputs = int(hot.sum())
        warmup = WARMUP.get(context.model, _WARMUP) if keys.warmup is None else keys.warmup
        batches = math.ceil(self._hot_inputs / size)
        self._snapshot = Snapshot(context, context.hot_rows.rows)
        self.calendar: PublishedCalendar = PublishedCalendar(
            context,
            self._snapshot,
            first=keys.warmup_batches * size,
            second=(round(warmup * batches) + keys.warmup_batches) * size,
            every=max(1, round(keys.interval * self._hot_inputs)),
        )

    @classmethod
    def decides_once(cls, keys: Skip) -> bool:
        """As published, unless it is to be repeated."""
        return not keys.repeat

    def freeze(self) -> dict[str, Array]:
        """How far each hot row has moved since the last snapshot; others have infinitely."""
        moved = np.full(self.context.reader.rows, np.inf, dtype=np.float32)
        moved[self._snapshot.rows] = self._snapshot.moved()
        return {"moved": moved}

    def sample(self, classifier: Classifier, position: int) -> Sample:
        """A share of the hot inputs that are left in this epoch."""
        base = self.context.base
        epoch = position // base.per_epoch
        numbers = base.numbers(epoch * base.per_epoch, (epoch + 1) * base.per_epoch)
        hot = numbers[self.context.hot_rows(numbers)]
        left = hot[self.calendar.seen - epoch * self._hot_inputs :]
        drawn = uniform(self.context.seed, "sample", left, epoch) <= self.keys.sample_share
        share = len(left) / max(1, (epoch + 1) * base.per_epoch - position)
        return Sample(classifier.drawn(left[drawn], epoch), share)

    def score(self, frozen: Mapping[str, Array], drawn: Drawn) -> Array:
        """The movement below which enough of an input's rows lie; a cold input's is infinite."""
        moved, all_of = frozen["moved"], drawn.accesses.largest(frozen["moved"])
        in_table = self.keys.h_c_list or ROWS_OF_A_LIST.get(self.context.model, ALL)
        if in_table == ALL and self.keys.h_c is None:
            return all_of
        enough = drawn.accesses.enough(moved, in_table, self.keys.h_c or ALL)
        return np.where(np.isinf(all_of) & (all_of > 0), np.inf, enough)

    def search(self, frozen: Mapping[str, Array], drawn: Drawn, wanted: float) -> Found:
        """The published search, or the threshold that was given."""
        scores, given = self.score(frozen, drawn), self.keys.h_t
        if given is not None:
            share = float((scores < given).mean()) if len(scores) else 0.0
            return Found(given, share, wanted, len(scores), "skip.h_t is set")
        tolerance = self.keys.tolerance
        if tolerance is None:
            tolerance = TOLERANCE.get(self.context.model, _TOLERANCE)
        most, rounds = self.keys.most_movement, self.keys.rounds
        return bisection(scores, wanted, tolerance, most=most, rounds=rounds)

    def keeps(self, frozen: Mapping[str, Array]) -> Array | None:
        """The row that moves most keeps an input."""
        return frozen["moved"]

    def state_dict(self) -> dict[str, Array]:
        """The snapshot, and the hot inputs so far."""
        about = [self.calendar.seen, self.calendar.compared]
        seen = {"seen": np.array(about, dtype=np.int64)}
        return seen | self._snapshot.state_dict()

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Go on with a snapshot."""
        # Checkpoints of 0.1.0 before its release begin with one more number.
        self.calendar.seen, compared = (int(one) for one in state["seen"][-2:])
        self.calendar.compared = bool(compared)
        self._snapshot.load_state_dict(state)

    def too_short(self) -> str:
        """Whether the hot inputs of the run end before the second snapshot."""
        context, size = self.context, self.context.batch_size
        hot, second = self._hot_inputs * context.base.epochs, self.calendar.second
        # Where all inputs come mixed, those behind the decision may be cold.
        late = context.late if context.hot_last and context.base.epochs == 1 else 0
        if second + late < hot and second + context.late < len(context.base):
            return ""
        holds = f" and that holds {self.keys.lag} batches later" if context.late else ""
        return (
            f"Nothing will be skipped: the published rule decides after {second // size:,} "
            f"batches of hot inputs ({self.keys.warmup_batches:,} before snapshot A){holds}, and "
            f"this run has {hot // size:,}. Set skip.warmup_batches lower, or skip.hot_memory "
            "higher."
        )
