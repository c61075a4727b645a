"""Local case-control: an example is trained with the chance that a cheap model is wrong about it.

The cheap model is a line through the sum of the log-odds of the example's rows, which are counted
as training goes.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from slipstream.arrays import Array
from slipstream.config.kinds import Positive, about
from slipstream.config.section import Settings
from slipstream.skip.accesses import Accesses
from slipstream.skip.candidates import Candidates
from slipstream.skip.context import RunContext
from slipstream.skip.rule import RowScores, SkipRule
from slipstream.skip.threshold import Threshold, quantile

_ROUNDS = 20  # of Newton's method
_AT_ONCE = 1 << 18  # rows
_BOUND = 8.0  # larger log-odds of the cheap model are cut


class CaseControlOptions(Settings, frozen=True, kw_only=True):
    """The options of `case-control`."""

    smoothing: Annotated[
        Positive, about("Accesses of the common click rate that each row has added")
    ] = 20.0


class CaseControl(SkipRule):
    """Trains an example with a chance in proportion to that of the cheap model being wrong.

    The log-odds of trained examples are corrected by the ratio of the chances with label 1 and
    with label 0, so predictions stay those of the whole data (Fithian and Hastie, 2014).
    """

    Options = CaseControlOptions
    observes = "all"
    saved = ("clicks", "counted")
    # Accesses and clicks; log-odds, and a copy of the counts where examples come again.
    row_bytes = (8, 12)

    def __init__(self, context: RunContext, options: CaseControlOptions) -> None:
        super().__init__(context, options)
        reader = context.reader
        self.clicks = np.zeros((reader.rows, 2), dtype=np.uint32)
        self.counted = np.zeros(len(reader.part), dtype=bool)

    def observe(self, trained: Accesses, skipped: Accesses | None) -> None:
        """Count accesses and clicks of all examples, each example once."""
        for accesses in (trained, skipped):
            assert accesses is not None, "it observes all"
            fresh = ~self.counted[accesses.example_numbers]
            if fresh.any():
                if not fresh.all():
                    accesses = self.context.reader.read(accesses.example_numbers[fresh])
                accesses.count_labels(self.clicks)
                self.counted[accesses.example_numbers] = True

    def decide(self, sample: Candidates, wanted: float) -> tuple[RowScores, Threshold]:
        """Also fits the line to the sample."""
        row_scores: dict[str, Array] = {"odds": odds_of(self.clicks, self.options.smoothing)}
        if self.context.base.epochs > 1:  # to leave out the clicks of an example that comes again
            row_scores |= {"clicks": self.clicks.copy(), "counted": self.counted.copy()}
            row_scores["prior"] = np.array([common_rate(self.clicks), self.options.smoothing])
        sums = _sums_of(row_scores, sample.accesses)
        row_scores["line"] = line_through(sums, (sample.labels > 0).astype(np.float64))
        return row_scores, quantile(self.score(row_scores, sample), wanted)

    def score(self, row_scores: RowScores, candidates: Candidates) -> Array:
        """The chance that the cheap model is wrong, over the example's random number."""
        positive, negative = _wrong(row_scores, candidates.accesses)
        return np.asarray(np.where(candidates.labels > 0, positive, negative) / candidates.chance)

    def log_odds_offset(
        self, row_scores: RowScores, threshold: float, candidates: Candidates
    ) -> Array | None:
        """The log of the ratio of the chances to be trained."""
        if not threshold > 0:
            return None
        scale = 1.0 / threshold
        positive, negative = (
            np.minimum(1, chance * scale) for chance in _wrong(row_scores, candidates.accesses)
        )
        return np.asarray(np.log(positive / negative), dtype=np.float32)


def odds_of(clicks: Array, smoothing: float) -> Array:
    """The log-odds of each row, less those of all, from its accesses and those with label 1."""
    common = common_rate(clicks)
    odds = np.empty(len(clicks), dtype=np.float32)
    for first in range(0, len(clicks), _AT_ONCE):
        n, positive = clicks[first : first + _AT_ONCE].astype(np.float64).T
        rate = (positive + smoothing * common) / (n + smoothing)
        odds[first : first + _AT_ONCE] = np.log(rate / (1 - rate)) - np.log(common / (1 - common))
    return odds


def common_rate(clicks: Array) -> float:
    """The share of accesses with label 1; never quite 0 or 1."""
    # Column by column: NumPy takes twenty times as long for both at once.
    accesses, positive = (int(column.sum(dtype=np.int64)) for column in clicks.T)
    return min(max(positive / max(1, accesses), 1e-6), 1 - 1e-6)


def line_through(sums: Array, labels: Array) -> Array:
    """The line in `sums` that predicts labels best: bias and slope, by Newton's method.

    A small penalty gives labels or sums that are all alike an answer.
    """
    x = np.stack([np.ones(len(sums)), sums])
    rate = (labels.sum() + 0.5) / (len(labels) + 1)
    first = np.array([np.log(rate / (1 - rate)), 0.0])
    line, penalty = first.copy(), np.array([1e-3, 1e-3])
    for _ in range(_ROUNDS):
        p = 1 / (1 + np.exp(-np.clip(line @ x, -30, 30)))
        slope = x @ (labels - p) - penalty * (line - first)
        curve = (x * (p * (1 - p))) @ x.T + np.diag(penalty)
        step = np.linalg.solve(curve, slope)
        line = line + np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-9:
            break
    return line


def _sums_of(row_scores: RowScores, accesses: Accesses) -> Array:
    """The sum of the rows' log-odds of each example, without the clicks of the example itself.

    With them the cheap model would know the answer, and the correction would be wrong.
    """
    sums = accesses.sums(row_scores["odds"])
    if "counted" in row_scores:
        counted = row_scores["counted"][accesses.example_numbers]
        if counted.any():
            others = accesses.odds_without_own(row_scores["clicks"], *row_scores["prior"].tolist())
            sums = np.where(counted, others, sums)
    return sums


def _wrong(row_scores: RowScores, accesses: Accesses) -> tuple[Array, Array]:
    """The chance that the cheap model is wrong about an example with label 1, and with label 0."""
    bias, slope = row_scores["line"]
    log_odds = np.clip(bias + slope * _sums_of(row_scores, accesses), -_BOUND, _BOUND)
    p = 1 / (1 + np.exp(-log_odds))
    return 1 - p, p
