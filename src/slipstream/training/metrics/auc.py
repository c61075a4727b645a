"""The area under the ROC curve: exact from scores, or within a stated error from a histogram.

It is the share of pairs of a positive and a negative example in which the positive one has the
higher score; a pair with equal scores counts half.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from slipstream.arrays import Array
from slipstream.training.metrics.metric import Figures, Mode, Predictions

HALF = 1 << 17
"""Bins on either side of zero: they are fine near zero, where scores are, and never end."""
_AT_ONCE = 1 << 16
_FINE = 8.0  # the bins of scores from -8 to 8 are half of all


def auc_of_scores(
    positive: Array,
    negative: Array,
    positive_weight: Array | None = None,
    negative_weight: Array | None = None,
) -> float | None:
    """The exact area; None where positive or negative examples are missing or weigh nothing.

    Scores without weights are sorted where they are, to need no more memory.
    """
    if positive_weight is None and negative_weight is None:
        if not len(positive) or not len(negative):
            return None
        negative.sort()
        positive.sort()  # the searches of neighbours end near each other: several times faster
        twice = 0
        for start in range(0, len(positive), _AT_ONCE):
            scores = positive[start : start + _AT_ONCE]
            for side in ("left", "right"):
                twice += int(np.searchsorted(negative, scores, side).sum(dtype=np.int64))
        return twice / (2 * len(positive) * len(negative))
    gain = np.ones_like(positive) if positive_weight is None else positive_weight
    cost = np.ones_like(negative) if negative_weight is None else negative_weight
    order = np.argsort(negative, kind="stable")
    mass = np.zeros(len(order) + 1)
    np.cumsum(cost[order], dtype=np.float64, out=mass[1:])
    below = negative[order]
    total = 2 * float(gain.sum(dtype=np.float64) * mass[-1])
    if total == 0:
        return None
    area = 0.0
    for start in range(0, len(positive), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        below_it = mass[np.searchsorted(below, positive[part], "left")]
        up_to_it = mass[np.searchsorted(below, positive[part], "right")]
        area += float((gain[part] * below_it).sum()) + float((gain[part] * up_to_it).sum())
    return min(area / total, 1.0)  # rounding may exceed 1


def bins_of(scores: Array) -> Array:
    """The bin of each score, from 0 to `2 * HALF - 1`; a higher score is never in a lower bin.

    Every operation is monotone also when rounded, which the error of the area rests on.
    """
    tail = (_FINE / (_FINE + np.abs(scores.astype(np.float64)))) * HALF
    bins = np.minimum(tail.astype(np.int64), HALF - 1)
    return np.where(scores < 0, bins, 2 * HALF - 1 - bins)


def auc_of_histograms(positive: Array, negative: Array) -> tuple[float | None, float | None]:
    """The area if scores within a bin were equal, and how far at most the exact one is from it.

    The order of a pair is unknown only where both fall into one bin, and it then counts half: so
    the error is at most half the share of such pairs.
    """
    total = float(positive.sum() * negative.sum())
    if total == 0:
        return None, None
    below = np.cumsum(negative) - negative
    shared = float((positive * negative).sum()) / 2
    return min((float((positive * below).sum()) + shared) / total, 1.0), shared / total


@dataclass(frozen=True)
class KeptScores:
    """Every score, and every weight where any is not 1, of the negative and positive examples."""

    negative: tuple[Array, ...] = ()
    positive: tuple[Array, ...] = ()

    def in_mode(self, mode: Mode) -> KeptScores | Histograms:
        """Every score for `exact`, two histograms for `bounded`."""
        return KeptScores() if mode == "exact" else Histograms()

    def plus(self, more: Predictions) -> KeptScores:
        """With more predictions."""
        scores, weights = more.logits, more.weights
        rows = np.stack([scores, weights]) if (weights != 1).any() else scores[None]
        negative, positive = rows[:, ~more.positive], rows[:, more.positive]
        return KeptScores((*self.negative, negative), (*self.positive, positive))

    def figures(self) -> Figures:
        """The area, and its error, which is 0."""
        sides = [_joined(pieces) for pieces in (self.positive, self.negative)]
        weights = [rows[1] if len(rows) == 2 else None for rows in sides]
        auc = auc_of_scores(sides[0][0], sides[1][0], *weights)
        return {"auc": auc, "auc_error": None if auc is None else 0.0}


@dataclass(frozen=True)
class Histograms:
    """How much weight falls into each bin, of the negative and of the positive examples."""

    bins: Array = field(default_factory=lambda: np.zeros((2, 2 * HALF)))

    def in_mode(self, mode: Mode) -> KeptScores | Histograms:
        """Every score for `exact`, two histograms for `bounded`."""
        return KeptScores().in_mode(mode)

    def plus(self, more: Predictions) -> Histograms:
        """With more predictions."""
        bins = bins_of(more.logits)
        classes = (~more.positive, more.positive)
        weights = [np.bincount(bins[side], more.weights[side], 2 * HALF) for side in classes]
        return Histograms(self.bins + weights)

    def figures(self) -> Figures:
        """The area, and how far at most the exact one is from it."""
        auc, error = auc_of_histograms(self.bins[1], self.bins[0])
        return {"auc": auc, "auc_error": error}


METRIC = KeptScores()


def _joined(pieces: tuple[Array, ...]) -> Array:
    """Scores, and weights below them if any piece has some."""
    if any(len(piece) == 2 for piece in pieces):
        weighted = [np.stack([p[0], np.ones_like(p[0])]) if len(p) == 1 else p for p in pieces]
        return np.concatenate(weighted, axis=1)
    return np.concatenate([np.empty((1, 0), dtype=np.float32), *pieces], axis=1)
