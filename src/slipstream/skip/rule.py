"""A skip rule: what it gathers for rows, how it decides, scores, and corrects log-odds."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, ClassVar, Literal

from slipstream.arrays import Array
from slipstream.config.section import Settings
from slipstream.skip.accesses import Accesses
from slipstream.skip.candidates import Candidates, sample_of
from slipstream.skip.context import RunContext
from slipstream.skip.threshold import Threshold, quantile
from slipstream.tables.plan import Plan

ALL = 1 << 30
"""As many of an example's rows or tables as there are."""
SAMPLE = 8192
"""Coming examples on which a threshold is searched."""
RowScores = Mapping[str, Array]
"""What a decision keeps, by name: numbers for each row, and a few others."""


class Due(IntEnum):
    """What is due after a step."""

    NOTHING = 0
    SNAPSHOT = 1
    DECISION = 2


class NoOptions(Settings, frozen=True, kw_only=True):
    """The options of a rule that has none."""


class SkipRule:
    """Decides which examples are skipped: those with the lowest scores.

    A rule has four parts. `observe` gathers numbers for rows, step by step. `decide` copies them as
    row scores, and chooses a threshold. `score` scores examples by these row scores alone: a pure
    function, so that an example can be judged ahead of its step, and again after a crash.
    `log_odds_offset` corrects examples that are trained. A new rule overrides `score` and
    what else it needs, and is registered with `slipstream.skip.register`.

    Args:
        context: The run that it is for.
        options: An object of the class `Options`.

    Attributes:
        Options: The class of its options.
        observes: The examples that `observe` needs.
        skips_hot_first: Whether it skips examples whose rows are accessed often rather than others.
        compensates: Whether a decision makes up for a share that was too large or too small before.
        row_bytes: Bytes for each row at most: of what it gathers, and of the row scores.
        saved: The attributes that a checkpoint holds: arrays that keep their size.
    """

    Options: ClassVar[type[Settings]] = NoOptions
    observes: ClassVar[Literal["nothing", "trained", "all"]] = "nothing"
    skips_hot_first: ClassVar[bool] = False
    compensates: ClassVar[bool] = True
    row_bytes: ClassVar[tuple[int, int]] = (0, 0)
    saved: ClassVar[tuple[str, ...]] = ()

    def __init__(self, context: RunContext, options: Any) -> None:
        self.context, self.options = context, options

    def observe(self, trained: Accesses, skipped: Accesses | None) -> None:
        """Gather from examples that were trained, and from skipped ones if it observes all."""

    def due(self, plan: Plan, before: int) -> Due:
        """What is due after the step of a plan that began at a position; called for every step.

        A copy of the rule is called ahead of the steps. So this may count in attributes that are
        plain numbers, and change nothing else.
        """
        context, position = self.context, plan.next_position
        # A decision that comes too late for the last example is not taken: its sample is empty.
        if not context.first <= position < len(context.base) - context.lag_examples:
            return Due.NOTHING
        then, now = ((at - context.first) // context.every for at in (before, position))
        return Due.DECISION if now > then else Due.NOTHING

    def snapshot(self) -> None:
        """Copy the rows: a snapshot is due."""

    def sample(self, position: int) -> Candidates:
        """Coming examples, on which a threshold is searched."""
        first = position + self.context.lag_examples
        return sample_of(self.context, first, first + self.context.every, SAMPLE)

    def row_scores(self) -> dict[str, Array]:
        """What is known now, by name: copies, which later steps do not change."""
        return {}

    def decide(self, sample: Candidates, wanted: float) -> tuple[RowScores, Threshold]:
        """The row scores, and the threshold below which the wanted share of the sample lies.

        The sample is empty only if an overridden `sample` returns none.
        """
        row_scores = self.row_scores()
        return row_scores, quantile(self.score(row_scores, sample), wanted)

    def score(self, row_scores: RowScores, candidates: Candidates) -> Array:
        """The score of each example; infinite where it is never skipped."""
        raise NotImplementedError

    def log_odds_offset(
        self, row_scores: RowScores, threshold: float, candidates: Candidates
    ) -> Array | None:
        """What is added to the logits of trained examples in the loss; None adds nothing.

        Where the chance to be trained depends on the label: the log of the chance with label 1
        over that with label 0. The model then predicts as if it had learned from all examples.
        """
        del row_scores, threshold, candidates
        return None

    def frozen_rows(self, row_scores: RowScores, threshold: float) -> Array | None:
        """Whether each row is not updated, though its examples are trained; None updates all."""
        del row_scores, threshold
        return None

    def state_dict(self) -> dict[str, Array]:
        """The state for a checkpoint."""
        return {name: getattr(self, name) for name in self.saved}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Continue with a saved state."""
        for name in self.saved:
            getattr(self, name)[...] = state[name]

    def too_short(self) -> str:
        """A sentence if the run ends before any decision holds; else nothing."""
        first, lag = self.context.first, self.context.lag_examples
        if first + lag < len(self.context.base):
            return ""
        holds = f" and holds {self.context.keys.lag} batches later" if lag else ""
        return (
            f"Nothing will be skipped: the first decision comes after {first:,} examples{holds}, "
            f"and the run has {len(self.context.base):,}. Set skip.warmup"
            f"{' or skip.lag lower, or make batches smaller' if lag else ' lower'}."
        )
