"""Slipstream as it was published: examples whose rows moved less than a threshold are dropped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated

import numpy as np

from slipstream.arrays import Array
from slipstream.config.kinds import Amount, Count, Fraction, Positive, Proportion, about
from slipstream.skip.candidates import Candidates, candidates_of
from slipstream.skip.chance import uniform
from slipstream.skip.context import RunContext
from slipstream.skip.hot import HotOptions
from slipstream.skip.rule import ALL, Due, RowScores, SkipRule
from slipstream.skip.snapshot import Snapshot
from slipstream.skip.threshold import Threshold, bisection
from slipstream.tables.plan import Plan

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


class Published(SkipRule):
    """Snapshot A after `warmup_batches` hot batches, B after a share of all hot batches more.

    A hot row is stale if no element of it moved by the threshold or more in between. A hot example
    is dropped for good if enough of its rows are stale. Decided once, unless `repeat` is set.
    """

    Options = PublishedOptions
    skips_hot_first = True
    compensates = False
    row_bytes = (0, 4)  # the movement

    def __init__(self, context: RunContext, options: PublishedOptions) -> None:
        super().__init__(context, options)
        size, tbsm = context.batch_size, context.model == "tbsm"
        self._hot_examples = int(context.hot_rows.examples[: context.base.per_epoch].sum())
        published = TBSM_WARMUP if tbsm else WARMUP
        warmup = published if context.keys.warmup is None else context.keys.warmup
        batches = math.ceil(self._hot_examples / size)
        # Hot examples before A, and before B; so far; and whether B was taken.
        self._first = max(1, options.warmup_batches * size)
        self._second = (round(warmup * batches) + options.warmup_batches) * size
        self._seen, self._decided = 0, False
        self._snapshot = Snapshot(context, context.hot_rows.rows)

    def due(self, plan: Plan, before: int) -> Due:
        """Snapshot A and the decision, after so many hot examples, trained and skipped.

        A comes at the earliest with the first hot examples: before them no hot row has moved.
        """
        del before
        context, seen_before = self.context, self._seen
        for numbers in (plan.example_numbers[: plan.n_valid].numpy(), plan.skipped):
            if numbers is not None:
                self._seen += int(context.hot_rows(numbers).sum())
        if seen_before < self._first:
            return Due.SNAPSHOT if self._seen >= self._first else Due.NOTHING
        if self._seen < self._second or plan.next_position >= len(context.base):
            return Due.NOTHING
        if not self._decided:
            self._decided = True
            return Due.DECISION
        every = max(1, round(context.keys.interval * self._hot_examples))
        then, now = ((seen - self._second) // every for seen in (seen_before, self._seen))
        return Due.DECISION if self.options.repeat and now > then else Due.NOTHING

    def snapshot(self) -> None:
        """Snapshot A."""
        self._snapshot.take()

    def row_scores(self) -> dict[str, Array]:
        """How far each hot row has moved since the last snapshot; other rows infinitely."""
        moved = np.full(self.context.reader.rows, np.inf, dtype=np.float32)
        moved[self._snapshot.rows], _ = self._snapshot.take()
        return {"moved": moved}

    def sample(self, position: int) -> Candidates:
        """A share of the hot examples that are left in this epoch."""
        base = self.context.base
        epoch = position // base.per_epoch
        end = (epoch + 1) * base.per_epoch
        numbers = base.example_numbers(end - base.per_epoch, end)
        hot = np.flatnonzero(self.context.hot_rows(numbers))
        left = hot[self._seen - epoch * self._hot_examples :]
        chances = uniform(self.context.seed, "sample", numbers[left], epoch)
        sample = left[chances <= self.options.sample_share]
        positions = end - base.per_epoch + sample
        return candidates_of(self.context, numbers[sample], positions, epoch)

    def score(self, row_scores: RowScores, candidates: Candidates) -> Array:
        """The movement below which enough of an example's rows lie; a cold one's is infinite."""
        moved, accesses = row_scores["moved"], candidates.accesses
        largest = accesses.largest(moved)
        in_list = TBSM_ROWS_OF_A_LIST if self.context.model == "tbsm" else ALL
        in_table = self.options.h_c_list or in_list
        if in_table == ALL and self.options.h_c is None:
            return largest
        bounds = accesses.bounds(moved, in_table, self.options.h_c or ALL)
        return np.where(np.isposinf(largest), np.inf, bounds)

    def decide(self, sample: Candidates, wanted: float) -> tuple[RowScores, Threshold]:
        """The published search, or the threshold that is set."""
        row_scores, options = self.row_scores(), self.options
        scores = self.score(row_scores, sample)
        if options.h_t is not None:
            share = float((scores < options.h_t).mean()) if len(scores) else 0.0
            why = "skip.options.h_t is set"
            return row_scores, Threshold(options.h_t, share, why)
        published = TBSM_TOLERANCE if self.context.model == "tbsm" else TOLERANCE
        tolerance = published if options.tolerance is None else options.tolerance
        largest, steps = options.max_movement, options.max_search_steps
        return row_scores, bisection(scores, wanted, tolerance, largest=largest, steps=steps)

    def state_dict(self) -> dict[str, Array]:
        """The snapshot, and the hot examples so far."""
        seen = np.array([self._seen, self._decided], dtype=np.int64)
        return {"seen": seen, **self._snapshot.state_dict()}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Continue with a saved snapshot."""
        seen, decided = state["seen"].tolist()
        self._seen, self._decided = seen, bool(decided)
        self._snapshot.load_state_dict(state)

    def too_short(self) -> str:
        """Whether the hot examples of the run end before the second snapshot."""
        context, size = self.context, self.context.batch_size
        hot, second = self._hot_examples * context.base.epochs, self._second
        # Where all examples come mixed, those behind the decision may be cold.
        hot_lag = context.lag_examples if context.hot_last and context.base.epochs == 1 else 0
        if second + hot_lag < hot and second + context.lag_examples < len(context.base):
            return ""
        lag, first = context.keys.lag, self.options.warmup_batches
        holds = f" and that holds {lag} batches later" if context.lag_examples else ""
        return (
            f"Nothing will be skipped: the published rule decides after {second // size:,} "
            f"batches of hot examples ({first:,} before snapshot A){holds}, and this run has "
            f"{hot // size:,}. Set skip.options.warmup_batches lower, or skip.options.hot_memory "
            "higher."
        )
