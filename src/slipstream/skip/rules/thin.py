"""Negatives thinned: where positives are rare, a negative teaches little."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from msgspec import Meta

from slipstream.arrays import Array
from slipstream.config.kinds import about
from slipstream.config.section import Settings
from slipstream.skip.candidates import Candidates
from slipstream.skip.rule import RowScores, SkipRule
from slipstream.skip.threshold import Threshold

_MOST = 0.99  # of the negatives: the others carry the correction


class ThinOptions(Settings, frozen=True, kw_only=True):
    """The options of `thin`."""

    keep_negatives: Annotated[
        Annotated[float, Meta(ge=0.01, le=1)] | None,
        about("The chance with which a negative is trained; null follows from skip.target"),
    ] = None


class Thin(SkipRule):
    """Trains all positives, and each negative with the same chance.

    The log-odds of trained examples are corrected by that chance, so predictions stay those of the
    whole data.
    """

    Options = ThinOptions

    def score(self, row_scores: RowScores, candidates: Candidates) -> Array:
        """The random number of each negative; positives are never skipped."""
        del row_scores
        return np.where(candidates.labels > 0, np.inf, candidates.chance)

    def decide(self, sample: Candidates, wanted: float) -> tuple[RowScores, Threshold]:
        """The threshold is the chance with which a negative is skipped."""
        keep = self.options.keep_negatives
        negatives = float((sample.labels <= 0).mean()) if len(sample) else 0.0
        if keep is not None:
            why = "skip.options.keep_negatives is set"
            return {}, Threshold(1 - keep, (1 - keep) * negatives, why)
        if wanted > negatives * _MOST:
            why = f"only {100 * negatives:.1f} % of the sample are negatives"
            return {}, Threshold(_MOST, negatives * _MOST, why)
        return {}, Threshold(wanted / negatives if wanted else 0.0, wanted)

    def log_odds_offset(
        self, row_scores: RowScores, threshold: float, candidates: Candidates
    ) -> Array | None:
        """All positives are trained, and 1 - threshold of the negatives."""
        del row_scores
        if threshold <= 0:
            return None
        return np.full(len(candidates), -math.log1p(-threshold), dtype=np.float32)
