"""Examples at random: the control of every other rule."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from slipstream.arrays import Array
from slipstream.config.kinds import about
from slipstream.skip.candidates import Candidates
from slipstream.skip.hot import HotOptions
from slipstream.skip.rule import RowScores, SkipRule
from slipstream.skip.threshold import Threshold


class RandomOptions(HotOptions, frozen=True, kw_only=True):
    """The options of `random`; those of hot rows matter with `hot_only`."""

    hot_only: Annotated[bool, about("Skip examples of which all rows are hot, and no others")] = (
        False
    )


class Random(SkipRule):
    """Skips the wanted share of examples, each with the same chance.

    With `hot_only` it skips hot examples only: the control of rules that skip no others.
    """

    Options = RandomOptions

    def score(self, row_scores: RowScores, candidates: Candidates) -> Array:
        """The random number of each example; with `hot_only` cold ones are never skipped."""
        del row_scores
        if not self.options.hot_only:
            return candidates.chance
        hot = self.context.hot_rows.of(candidates.accesses)
        return np.where(hot, candidates.chance, np.inf)

    def decide(self, sample: Candidates, wanted: float) -> tuple[RowScores, Threshold]:
        """Without `hot_only` the threshold is the share."""
        if self.options.hot_only:
            return super().decide(sample, wanted)
        return {}, Threshold(wanted, wanted)
