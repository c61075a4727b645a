"""Finds the threshold of scores below which the wanted share of examples lies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slipstream.arrays import Array

_CLOSE = 0.01  # a share that is closer to the wanted one needs no reason


class Threshold(NamedTuple):
    """The threshold of a decision.

    Args:
        value: Examples whose score is below it are skipped.
        share: The share of the sample that is.
        why: The reason, if the share is not the wanted one.
    """

    value: float
    share: float
    why: str = ""


def quantile(scores: Array, wanted: float) -> Threshold:
    """The threshold below which the share of scores is as close to the wanted one as it can be.

    Scores are infinite where an example is never skipped.

    Example:
        >>> quantile(np.array([3.0, 1.0, 4.0, 2.0]), 0.5)
        Threshold(value=3.0, share=0.5, why='')
        >>> quantile(np.array([1.0, np.inf, np.inf, np.inf]), 0.5).why
        'only 25.0 % of the sample can be skipped'
    """
    n = len(scores)
    if n == 0 or wanted <= 0:
        why = "no example is left to judge" if wanted > _CLOSE else ""
        return Threshold(-np.inf, 0.0, why)
    rising = np.sort(scores)
    finite = int(np.isfinite(rising).sum())
    place = min(round(wanted * n), finite)
    if finite == 0:
        value = -np.inf
    elif place == finite:
        # No higher than the sample's scores: nothing is known of examples with higher ones.
        value = np.nextafter(rising[finite - 1], np.inf)
    else:
        # Equal scores are skipped together or not at all, depending on which share is closer.
        low, high = (
            int(np.searchsorted(rising, rising[place], side)) for side in ("left", "right")
        )
        below = place - low <= high - place
        value = rising[place] if below else np.nextafter(rising[place], np.inf)
    share = float((rising < value).sum() / n)
    why = ""
    if abs(share - wanted) > _CLOSE:
        why = (
            f"only {100 * finite / n:.1f} % of the sample can be skipped"
            if share < wanted and place == finite
            else "many examples have the same score"
        )
    return Threshold(float(value), share, why)


def bisection(
    scores: Array, wanted: float, tolerance: float, *, largest: float = 0.1, steps: int = 25
) -> Threshold:
    """The published search: halve [0, largest] until the share is within a tolerance.

    Without success the threshold is 0, below which no row moves: as published, nothing is skipped.

    Example:
        >>> bisection(np.arange(1000) / 10000, 0.3, 0.08)[:2]
        (0.025, 0.25)
    """
    low, high, n = 0.0, largest, len(scores)
    if n == 0:
        return Threshold(0.0, 0.0, "no hot example is in the sample")
    share = 0.0
    for _ in range(steps):
        value = (low + high) / 2
        share = float((scores < value).sum() / n)
        if abs(share - wanted) <= tolerance:
            close = abs(share - wanted) <= _CLOSE
            why = "" if close else f"within the tolerance of {tolerance:g}"
            return Threshold(value, share, why)
        low, high = (low, value) if share > wanted else (value, high)
    why = (
        f"in {steps} steps no threshold up to {largest:g} came within {tolerance:g} of the share: "
        f"the last one reached {share:.3f}"
    )
    return Threshold(0.0, 0.0, why)
