"""Least left to learn: a row that was accessed often gains little from another example."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from slipstream.arrays import Array
from slipstream.config.kinds import Portion, about
from slipstream.config.section import Settings
from slipstream.skip.accesses import Accesses
from slipstream.skip.candidates import Candidates
from slipstream.skip.context import RunContext
from slipstream.skip.rule import RowScores, SkipRule


class ValueOptions(Settings, frozen=True, kw_only=True):
    """The options of `value`."""

    explore: Annotated[
        Portion, about("Share of the examples to be skipped that is trained all the same")
    ] = 0.02


class Value(SkipRule):
    """Scores an example by the sum over its rows of 1 / (trained accesses so far + 1).

    What another example adds to the estimate of a row seen n times falls like 1 / n.
    """

    Options = ValueOptions
    observes = "trained"
    skips_hot_first = True
    saved = ("counts",)
    row_bytes = (4, 4)  # a count, and 1 / (count + 1)

    def __init__(self, context: RunContext, options: ValueOptions) -> None:
        super().__init__(context, options)
        self.counts = np.zeros(context.reader.rows, dtype=np.uint32)

    def observe(self, trained: Accesses, skipped: Accesses | None) -> None:
        """Count the accesses of trained examples; skipped ones have taught nothing."""
        del skipped
        trained.count(self.counts)

    def row_scores(self) -> dict[str, Array]:
        """What another access teaches each row."""
        left = self.counts.astype(np.float32)
        left += np.float32(1)
        return {"left_to_learn": np.reciprocal(left, out=left)}

    def score(self, row_scores: RowScores, candidates: Candidates) -> Array:
        """What is left to learn from each example."""
        return candidates.accesses.sums(row_scores["left_to_learn"])
