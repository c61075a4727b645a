"""The area under the ROC curve: exact from scores, or within a stated error from a histogram.

It is the share of pairs of a positive and a negative input in which the positive one has the
higher score; a pair with equal scores counts half.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from slipstream.compiled import compiled
from slipstream.data.inputs import Array

HALF = 1 << 17
"""Bins on either side of zero: they are fine near zero, where scores are, and never end."""
_AT_ONCE = 1 << 16
_FINE = 8.0  # the bins of scores from -8 to 8 are half of all
_DIGIT = 11  # bits by which scores are sorted at a time: three times are enough for 32


def auc_of_scores(
    positive: Array,
    negative: Array,
    positive_weight: Array | None = None,
    negative_weight: Array | None = None,
) -> float | None:
    """The exact area; None where positive or negative inputs are missing or weigh nothing.

    Scores without weights are sorted where they are, to need no more memory.

    Example:
        >>> auc_of_scores(np.array([0.3, 0.1]), np.array([0.1, 0.0]))
        0.875
    """
    if positive_weight is None and negative_weight is None:
        if not len(positive) or not len(negative):
            return None
        negative.sort()
        positive.sort()  # neighbours ask for neighbours: several times faster
        twice = 0
        for start in range(0, len(positive), _AT_ONCE):
            asked = positive[start : start + _AT_ONCE]
            for side in ("left", "right"):
                twice += int(np.searchsorted(negative, asked, side).sum(dtype=np.int64))
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
        some = slice(start, start + _AT_ONCE)
        below_it = mass[np.searchsorted(below, positive[some], "left")]
        up_to_it = mass[np.searchsorted(below, positive[some], "right")]
        area += float((gain[some] * below_it).sum()) + float((gain[some] * up_to_it).sum())
    return min(area / total, 1.0)  # rounding may exceed 1


@compiled
def auc_of_labels(scores: Array, labels: Array) -> float:
    """The exact area of float32 scores that weigh the same; not a number where a side is missing.

    As `auc_of_scores`, to the bit, in one call without the interpreter lock.
    """
    n = len(scores)
    keys, sorted_keys = np.empty(n, dtype=np.uint64), np.empty(n, dtype=np.uint64)
    bits = (scores + np.float32(0)).view(np.uint32)  # of two zeros one
    positives = 0
    for k in range(n):
        # As numbers without a sign these rise as the scores do.
        flip = np.uint32(0xFFFFFFFF) if bits[k] >> np.uint32(31) else np.uint32(0x80000000)
        positive = labels[k] > 0
        keys[k] = (np.uint64(bits[k] ^ flip) << np.uint64(1)) | np.uint64(positive)
        positives += positive
    if positives == 0 or positives == n:
        return np.nan
    for digit in range(3):
        shift = np.uint64(1 + _DIGIT * digit)
        starts = np.zeros((1 << _DIGIT) + 1, dtype=np.int64)
        for k in range(n):
            starts[((keys[k] >> shift) & np.uint64((1 << _DIGIT) - 1)) + np.uint64(1)] += 1
        starts = starts.cumsum()
        for k in range(n):
            bucket = (keys[k] >> shift) & np.uint64((1 << _DIGIT) - 1)
            sorted_keys[starts[bucket]] = keys[k]
            starts[bucket] += 1
        keys, sorted_keys = sorted_keys, keys
    twice = below = first = 0
    while first < n:
        last, mine, score = first, 0, keys[first] >> np.uint64(1)
        while last < n and keys[last] >> np.uint64(1) == score:
            mine += np.int64(keys[last] & np.uint64(1))
            last += 1
        others = last - first - mine
        twice += mine * (2 * below + others)
        below += others
        first = last
    return twice / (2 * positives * (n - positives))


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

    Example:
        >>> auc_of_histograms(np.array([0.0, 1.0, 1.0]), np.array([2.0, 2.0, 0.0]))
        (0.875, 0.125)
    """
    total = float(positive.sum() * negative.sum())
    if total == 0:
        return None, None
    below = np.cumsum(negative) - negative
    shared = float((positive * negative).sum()) / 2
    return min((float((positive * below).sum()) + shared) / total, 1.0), shared / total


@dataclass(frozen=True)
class KeptScores:
    """Every score, and every weight where any is not 1, of the negative and positive inputs."""

    negative: tuple[Array, ...] = ()
    positive: tuple[Array, ...] = ()

    def plus(self, scores: Array, positive: Array, weights: Array) -> KeptScores:
        """With more inputs."""
        rows = np.stack([scores, weights]) if (weights != 1).any() else scores[None]
        return KeptScores((*self.negative, rows[:, ~positive]), (*self.positive, rows[:, positive]))

    def auc(self) -> tuple[float | None, float | None]:
        """The area, and its error, which is 0."""
        negative, positive = self.state().values()
        weights = [rows[1] if len(rows) == 2 else None for rows in (positive, negative)]
        auc = auc_of_scores(positive[0], negative[0], *weights)
        return auc, None if auc is None else 0.0

    def state(self) -> dict[str, Array]:
        """All there is to it."""
        return {"negative": _joined(self.negative), "positive": _joined(self.positive)}

    @classmethod
    def of_state(cls, state: Mapping[str, Array]) -> KeptScores:
        """What had that state."""
        return cls((state["negative"],), (state["positive"],))


@dataclass(frozen=True)
class Histograms:
    """How much weight falls into each bin, of the negative and of the positive inputs."""

    bins: Array = field(default_factory=lambda: np.zeros((2, 2 * HALF)))

    def plus(self, scores: Array, positive: Array, weights: Array) -> Histograms:
        """With more inputs."""
        at = bins_of(scores)
        more = [np.bincount(at[one], weights[one], 2 * HALF) for one in (~positive, positive)]
        return Histograms(self.bins + more)

    def auc(self) -> tuple[float | None, float | None]:
        """The area, and how far at most the exact one is from it."""
        return auc_of_histograms(self.bins[1], self.bins[0])

    def state(self) -> dict[str, Array]:
        """All there is to it."""
        return {"bins": self.bins}

    @classmethod
    def of_state(cls, state: Mapping[str, Array]) -> Histograms:
        """What had that state."""
        return cls(state["bins"])


def _joined(pieces: tuple[Array, ...]) -> Array:
    """Scores, and weights below them if any piece has some."""
    if any(len(piece) == 2 for piece in pieces):
        whole = (
            np.stack([one[0], np.ones_like(one[0])]) if len(one) == 1 else one for one in pieces
        )
        return np.concatenate(list(whole), axis=1)
    return np.concatenate([np.empty((1, 0), dtype=np.float32), *pieces], axis=1)
