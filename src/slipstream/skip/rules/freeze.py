"""Rows that hardly move are frozen; their examples still train everything else."""

from __future__ import annotations

import numpy as np

from slipstream.arrays import Array
from slipstream.skip.candidates import Candidates
from slipstream.skip.context import RunContext
from slipstream.skip.rule import RowScores
from slipstream.skip.rules.movement import FreezeOptions, Movement
from slipstream.skip.threshold import Threshold, quantile


class Freeze(Movement):
    """Trains every example, and leaves out the wanted share of row updates: those that move least.

    A frozen row cannot move, and would be judged stale for ever. So a row is judged only if it was
    not frozen since the last snapshot, and each frozen row is released after an interval.
    """

    Options = FreezeOptions
    compensates = False
    skips_hot_first = False
    saved = ("touches", "frozen")
    row_bytes = (5, 4)  # also whether the row is frozen

    def __init__(self, context: RunContext, options: FreezeOptions) -> None:
        super().__init__(context, options)
        self.frozen = np.zeros(context.reader.rows, dtype=bool)

    def judged(self, rows: Array) -> Array:
        """Whether each row was not frozen by the decision before."""
        return ~self.frozen[rows]

    def score(self, row_scores: RowScores, candidates: Candidates) -> Array:
        """No example is skipped."""
        del row_scores
        return np.full(len(candidates), np.inf)

    def decide(self, sample: Candidates, wanted: float) -> tuple[RowScores, Threshold]:
        """The movement below which the wanted share of row updates lies."""
        row_scores = self.row_scores()
        threshold = quantile(row_scores["moved"][sample.accesses.rows[0]], wanted)
        self.frozen[:] = row_scores["moved"] < threshold.value
        return row_scores, threshold

    def frozen_rows(self, row_scores: RowScores, threshold: float) -> Array | None:
        """The rows that move less than the threshold."""
        return np.asarray(row_scores["moved"] < threshold)
