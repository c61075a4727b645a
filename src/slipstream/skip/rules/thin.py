"""Negatives thinned: where positives are rare, each is worth many negatives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from slipstream.data.inputs import Array
from slipstream.skip.rule import Drawn, Rule
from slipstream.skip.search import Found

_MOST = 0.99  # of the negatives at most: what is corrected by them must be there


class Thin(Rule):
    """Trains all positives, and each negative with the same chance.

    The chance is `skip.keep_negatives`, or the one that skips the wanted share. Trained inputs
    have their log-odds corrected by it, so predictions stay those of the whole data.
    """

    CHANCES: ClassVar[bool] = True
    LEAVES_COLD: ClassVar[bool] = False

    def score(self, frozen: Mapping[str, Array], drawn: Drawn) -> Array:
        """The chance of each negative; positives are never skipped."""
        del frozen
        return np.where(drawn.labels > 0, np.inf, drawn.chance)

    def search(self, frozen: Mapping[str, Array], drawn: Drawn, wanted: float) -> Found:
        """The chance with which a negative is skipped."""
        del frozen
        n, kept = len(drawn.labels), self.keys.keep_negatives
        negatives = float((drawn.labels <= 0).mean()) if n else 0.0
        if kept is not None:
            return Found(1 - kept, (1 - kept) * negatives, wanted, n, "skip.keep_negatives is set")
        if wanted > negatives * _MOST:
            why = f"only {100 * negatives:.1f} % of the sample are negatives"
            return Found(_MOST, negatives * _MOST, wanted, n, why)
        return Found(wanted / negatives if wanted else 0.0, wanted, wanted, n)

    def logit_offset(
        self, frozen: Mapping[str, Array], threshold: float, drawn: Drawn
    ) -> Array | None:
        """Of positives all are trained, of negatives 1 - threshold."""
        del frozen
        if threshold <= 0:
            return None
        return np.full(len(drawn.chance), -math.log1p(-threshold), dtype=np.float32)
