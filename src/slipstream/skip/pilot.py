"""A cheap pilot: the log-odds of an input as a line through the sum of its rows' click rates."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from slipstream.data.inputs import Array
from slipstream.skip.accesses import Accesses
from slipstream.skip.bits import bits_of

_ROUNDS = 20
_AT_ONCE = 1 << 18
_BOUND = 8.0  # log-odds beyond which a pilot is not believed


def odds_of(clicks: Array, smoothing: float) -> Array:
    """For each row by how much its log-odds differ from those of all.

    Args:
        clicks: Accesses of each row, and those with label 1: `[rows, 2]`.
        smoothing: Each row has so many accesses of the common rate added.
    """
    common = common_rate(clicks)
    odds = np.empty(len(clicks), dtype=np.float32)
    for first in range(0, len(clicks), _AT_ONCE):
        n, ones = clicks[first : first + _AT_ONCE].astype(np.float64).T
        rate = (ones + smoothing * common) / (n + smoothing)
        odds[first : first + _AT_ONCE] = np.log(rate / (1 - rate)) - np.log(common / (1 - common))
    return odds


def common_rate(clicks: Array) -> float:
    """The share of accesses with label 1; never quite 0 or 1."""
    # Column by column: NumPy sums both at once twenty times as slowly.
    seen, positive = (int(one.sum(dtype=np.int64)) for one in clicks.T)
    return min(max(positive / max(1, seen), 1e-6), 1 - 1e-6)


def sums_of(frozen: Mapping[str, Array], accesses: Accesses) -> Array:
    """The sum of its rows' log-odds for each input, by other inputs than itself.

    What an input's own label has added would tell the pilot the answer, and inputs would be
    skipped for being right about what it was told.

    Args:
        frozen: `odds` of each row; where inputs come again also the `clicks` they are of, `counted`
            (a bit for each input: whether it is among them), and `prior` (common rate, smoothing).
        accesses: The inputs.
    """
    sums = accesses.sums(frozen["odds"])
    if "counted" not in frozen:
        return sums
    told = bits_of(frozen["counted"], accesses.numbers)
    if told.any():
        common, smoothing = frozen["prior"].tolist()
        sums = np.where(told, accesses.odds_without_own(frozen["clicks"], common, smoothing), sums)
    return sums


def line_through(sums: Array, labels: Array) -> Array:
    """The line in `sums` that predicts labels best: bias and slope, by Newton's method.

    Both are held back a little, so that labels all alike, or sums all alike, have an answer.
    """
    x = np.stack([np.ones(len(sums)), sums])
    rate = (labels.sum() + 0.5) / (len(labels) + 1)
    first = np.array([np.log(rate / (1 - rate)), 0.0])
    line, held = first.copy(), np.array([1e-3, 1e-3])
    for _ in range(_ROUNDS):
        p = 1 / (1 + np.exp(-np.clip(line @ x, -30, 30)))
        slope = x @ (labels - p) - held * (line - first)
        curve = (x * (p * (1 - p))) @ x.T + np.diag(held)
        step = np.linalg.solve(curve, slope)
        line = line + np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-9:
            break
    return line


def wrong(frozen: Mapping[str, Array], accesses: Accesses) -> tuple[Array, Array]:
    """The chances that the pilot is wrong about an input: if its label is 1, and if it is 0.

    Args:
        frozen: What `sums_of` needs, and the `line` through these sums.
        accesses: The inputs.
    """
    bias, slope = frozen["line"]
    log_odds = np.clip(bias + slope * sums_of(frozen, accesses), -_BOUND, _BOUND)
    p = 1 / (1 + np.exp(-log_odds))
    return 1 - p, p
