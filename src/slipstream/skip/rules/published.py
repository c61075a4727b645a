"""Slipstream as it was published: examples whose rows moved less than a threshold are dropped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from slipstream.arrays import Array
from slipstream.config.kinds import Amount, Count, Fraction, Positive, Proportion, about
from slipstream.config.section import Settings
from slipstream.skip.calendar import Calendar, Due
from slipstream.skip.chance import uniform
from slipstream.skip.context import RunContext
from slipstream.skip.hot import HotOptions
from slipstream.skip.rule import ALL, Candidates, RowTables, SkipRule
from slipstream.skip.snapshot import Snapshot
from slipstream.skip.threshold import Threshold, bisection
from slipstream.tables.plan import Plan

if TYPE_CHECKING:
    from slipstream.skip.classifier import Classifier

WARMUP, TOLERANCE = 0.03, 0.08
TBSM_WARMUP, TBSM_TOLERANCE, TBSM_ROWS_OF_A_LIST = 0.05, 0.02, 4


class PublishedOptions(HotOptions, frozen=True, kw_only=True):
    """The options of `published`."""

    warmup_batches: Annotated[Amount, about("Hot batches before snapshot A")] = 1000
    sample_share: Annotated[
        Fraction, about("Share of the coming hot examples on which the threshold is searched")
    ] = 0.001
    tolerance: Annotated[
        Proportion | None,
        about("How far the share may be from the target; null is 0.02 for tbsm, else 0.08"),
    ] = None
    max_movement: Annotated[Positive, about("The largest threshold of movement")] = 0.1
    max_search_steps: Annotated[Count, about("Steps of the search at most")] = 25
    h_t: Annotated[
        Positive | None, about("The movement below which a row is stale; null searches it")
    ] = None
    h_c: Annotated[Count | None, about("Tables of an example that must be stale; null is all")] = (
        None
    )
    h_c_list: Annotated[
        Count | None,
        about("Stale rows of a table that is accessed several times; null is 4 for tbsm, else all"),
    ] = None
    repeat: Annotated[bool, about("Decide anew every skip.interval of the hot examples")] = False


class PublishedCalendar(Calendar):
    """Snapshots A and B after so many hot examples, trained and skipped; B is with a decision.

    Args:
        context: The run.
        first: Hot examples before A.
        second: Hot examples before B.
        every: Hot examples from there to the next decision; None takes no other.

    Attributes:
        seen: Hot examples so far.
        copied: Whether there was snapshot A.
        decided: Whether there was snapshot B.
    """

    def __init__(self, context: RunContext, first: int, second: int, every: int | None) -> None:
        super().__init__(context)
        self._first, self.second, self._every = first, second, every
        self.seen, self.copied, self.decided = 0, False, False

    def after(self, plan: Plan, before: int) -> Due:
        """Count the hot examples of the step."""
        del before
        seen_before = self.seen
        for numbers in (plan.numbers[: plan.n_valid].numpy(), plan.skipped):
            if numbers is not None:
                self.seen += int(self.context.hot_rows(numbers).sum())
        if plan.next_position >= len(self.context.base):
            return Due.NOTHING
        if not self.copied:
            # At the earliest with the first hot examples: before them no hot row has moved.
            self.copied = self.seen >= max(1, self._first)
            return Due.SNAPSHOT if self.copied else Due.NOTHING
        if self.seen < self.second:
            return Due.NOTHING
        if self.decided:
            if self._every is None:
                return Due.NOTHING
            then, now = ((at - self.second) // self._every for at in (seen_before, self.seen))
            return Due.DECISION if now > then else Due.NOTHING
        self.decided = True
        return Due.DECISION


class Published(SkipRule):
    """Snapshot A after `warmup_batches` hot batches, B after a share of all hot batches more.

    A hot row is stale if no element of it moved by the threshold or more in between. A hot example
    is dropped for good if enough of its rows are stale. Decided once, unless `repeat` is set.
    """

    Options: ClassVar[type[Settings]] = PublishedOptions
    skips_hot_first: ClassVar[bool] = True
    compensates: ClassVar[bool] = False

    def __init__(self, context: RunContext, options: PublishedOptions) -> None:
        super().__init__(context, options)
        keys, size = context.keys, context.batch_size
        hot = context.hot_rows.examples[: context.base.per_epoch]
        self._hot_examples = int(hot.sum())
        published = TBSM_WARMUP if context.model == "tbsm" else WARMUP
        warmup = published if keys.warmup is None else keys.warmup
        batches = math.ceil(self._hot_examples / size)
        self._snapshot = Snapshot(context, context.hot_rows.rows)
        every = max(1, round(keys.interval * self._hot_examples)) if options.repeat else None
        first = options.warmup_batches
        self.calendar: PublishedCalendar = PublishedCalendar(
            context, first * size, (round(warmup * batches) + first) * size, every
        )

    @classmethod
    def row_bytes(cls, epochs: int) -> tuple[int, int]:
        """The movement."""
        del epochs
        return 0, 4

    def snapshot(self) -> None:
        """Snapshot A."""
        self._snapshot.take()

    def row_tables(self) -> dict[str, Array]:
        """How far each hot row has moved since the last snapshot; other rows infinitely."""
        moved = np.full(self.context.reader.rows, np.inf, dtype=np.float32)
        moved[self._snapshot.rows], _ = self._snapshot.take()
        return {"moved": moved}

    def sample(self, classifier: Classifier, position: int) -> Candidates:
        """A share of the hot examples that are left in this epoch."""
        base = self.context.base
        epoch = position // base.per_epoch
        end = (epoch + 1) * base.per_epoch
        numbers = base.numbers(end - base.per_epoch, end)
        hot = np.flatnonzero(self.context.hot_rows(numbers))
        left = hot[self.calendar.seen - epoch * self._hot_examples :]
        drawn_numbers = uniform(self.context.seed, "sample", numbers[left], epoch)
        sample = left[drawn_numbers <= self.options.sample_share]
        candidates = classifier.candidates(numbers[sample], end - base.per_epoch + sample)
        share = len(left) / max(1, end - position)
        return Candidates(candidates.accesses, candidates.chance, candidates.positions, share)

    def score(self, tables: RowTables, candidates: Candidates) -> Array:
        """The movement below which enough of an example's rows lie; a cold one's is infinite."""
        moved, accesses = tables["moved"], candidates.accesses
        largest = accesses.largest(moved)
        in_list = TBSM_ROWS_OF_A_LIST if self.context.model == "tbsm" else ALL
        in_table = self.options.h_c_list or in_list
        if in_table == ALL and self.options.h_c is None:
            return largest
        bounds = accesses.bounds(moved, in_table, self.options.h_c or ALL)
        return np.where(np.isposinf(largest), np.inf, bounds)

    def decide(self, sample: Candidates, wanted: float) -> tuple[RowTables, Threshold]:
        """The published search, or the threshold that is set."""
        tables, options = self.row_tables(), self.options
        scores = self.score(tables, sample)
        if options.h_t is not None:
            share = float((scores < options.h_t).mean()) if len(scores) else 0.0
            why = "skip.options.h_t is set"
            return tables, Threshold(options.h_t, share, wanted, len(scores), why)
        published = TBSM_TOLERANCE if self.context.model == "tbsm" else TOLERANCE
        tolerance = published if options.tolerance is None else options.tolerance
        largest, steps = options.max_movement, options.max_search_steps
        return tables, bisection(scores, wanted, tolerance, largest=largest, steps=steps)

    def blocking(self, tables: RowTables) -> Array | None:
        """The row that moves most keeps an example."""
        return tables["moved"]

    def state_dict(self) -> dict[str, Array]:
        """The snapshot, and the hot examples so far."""
        about = [self.calendar.seen, self.calendar.decided]
        return {"seen": np.array(about, dtype=np.int64), **self._snapshot.state_dict()}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Continue with a saved snapshot."""
        seen, decided = state["seen"].tolist()
        self._snapshot.load_state_dict(state)
        self.calendar.seen, self.calendar.decided = seen, bool(decided)
        self.calendar.copied = self._snapshot.exists

    def too_short(self) -> str:
        """Whether the hot examples of the run end before the second snapshot."""
        context, size = self.context, self.context.batch_size
        hot, second = self._hot_examples * context.base.epochs, self.calendar.second
        # Where all examples come mixed, those behind the decision may be cold.
        late = context.late if context.hot_last and context.base.epochs == 1 else 0
        if second + late < hot and second + context.late < len(context.base):
            return ""
        lag, first = context.keys.lag, self.options.warmup_batches
        holds = f" and that holds {lag} batches later" if context.late else ""
        return (
            f"Nothing will be skipped: the published rule decides after {second // size:,} "
            f"batches of hot examples ({first:,} before snapshot A){holds}, and this run has "
            f"{hot // size:,}. Set skip.options.warmup_batches lower, or skip.options.hot_memory "
            "higher."
        )
