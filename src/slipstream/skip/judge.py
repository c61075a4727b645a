"""Judges examples by a rule and the row scores of a decision."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from slipstream.arrays import Array
from slipstream.skip.candidates import candidates_of
from slipstream.skip.chance import uniform
from slipstream.skip.decision import Decision
from slipstream.skip.rule import SkipRule


class Verdict(NamedTuple):
    """Whether each example is trained, and what is added to its logit in the loss, or None."""

    train: Array
    logit_offset: Array | None = None


class Judge:
    """Decides which examples are trained: a pure function of a decision and their positions.

    Attributes:
        explore: The share of examples to be skipped that is trained all the same.
        seconds: Time spent so far.
    """

    def __init__(self, rule: SkipRule) -> None:
        self._rule = rule
        self._corrects = type(rule).log_odds_offset is not SkipRule.log_odds_offset
        self.explore: float = getattr(rule.options, "explore", 0.0)
        self.seconds = 0.0

    def __call__(self, decision: Decision, positions: Array, numbers: Array) -> Verdict:
        """The verdict on the examples of these numbers at these positions."""
        rule, context = self._rule, self._rule.context
        # All batches of a run are of one kind: zeros where an offset may come later.
        zeros = np.zeros(len(numbers), dtype=np.float32) if self._corrects else None
        if decision.trains_all:
            return Verdict(np.ones(len(numbers), dtype=bool), zeros)
        start = time.perf_counter()
        epochs = positions // max(1, context.base.per_epoch)
        candidates = candidates_of(context, numbers, positions, epochs)
        train = ~(rule.score(decision.row_scores, candidates) < decision.threshold)
        if self.explore:
            train |= uniform(context.seed, "explore", numbers, epochs) <= self.explore
        offset = rule.log_odds_offset(decision.row_scores, decision.threshold, candidates)
        self.seconds += time.perf_counter() - start
        return Verdict(train, zeros if offset is None else offset)
