"""Finds the threshold below which the wanted share of inputs lies: it always ends, and says."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slipstream.data.inputs import Array

_ALIKE = 0.01  # how far the share may be from the wanted one without a word


class Found(NamedTuple):
    """What a search has found.

    Args:
        threshold: Inputs whose score is below it are skipped.
        share: The share of the sample that is.
        wanted: The share that was wanted.
        inputs: Inputs in the sample.
        why: If the share is not the wanted one: why.
    """

    threshold: float
    share: float
    wanted: float
    inputs: int
    why: str = ""


def quantile(scores: Array, wanted: float) -> Found:
    """The threshold below which the share of scores is as close to the wanted one as it can be.

    Args:
        scores: Of a sample of inputs; infinite where an input is never skipped.
        wanted: The share.

    Example:
        >>> quantile(np.array([3.0, 1.0, 4.0, 2.0]), 0.5)
        Found(threshold=3.0, share=0.5, wanted=0.5, inputs=4, why='')
        >>> quantile(np.array([1.0, np.inf, np.inf, np.inf]), 0.5).why
        'only 25.0 % of the sample can be skipped'
    """
    n = len(scores)
    if n == 0 or wanted <= 0:
        why = "no input is left to judge" if wanted > _ALIKE else ""
        return Found(-np.inf, 0.0, wanted, n, why)
    rising = np.sort(scores)
    finite = int(np.isfinite(rising).sum())
    place = min(round(wanted * n), finite)
    if finite == 0:
        threshold = -np.inf
    elif place == finite:
        # No higher than what was seen: nothing is known of inputs that score more.
        threshold = np.nextafter(rising[finite - 1], np.inf)
    else:
        # Equal scores are skipped together or not at all: whichever comes closer.
        low, high = (
            int(np.searchsorted(rising, rising[place], side)) for side in ("left", "right")
        )
        closer = place - low <= high - place
        threshold = rising[place] if closer else np.nextafter(rising[place], np.inf)
    share = float((rising < threshold).sum() / n)
    why = ""
    if abs(share - wanted) > _ALIKE:
        why = (
            f"only {finite / n:.1%} of the sample can be skipped".replace("%", " %")
            if share < wanted and place == finite
            else "many inputs have the same score"
        )
    return Found(float(threshold), share, wanted, n, why)


def bisection(
    scores: Array, wanted: float, tolerance: float, *, most: float = 0.1, rounds: int = 25
) -> Found:
    """The published search: halve [0, most] until the share is within a tolerance of the wanted.

    After `rounds` without success the threshold is 0, below which nothing moves: nothing is
    skipped, as published, but not without a word.

    Args:
        scores: Of a sample of inputs.
        wanted: The share.
        tolerance: How far the share may be from it.
        most: The largest threshold.
        rounds: The most times to halve.

    Example:
        >>> bisection(np.arange(1000) / 10000, 0.3, 0.08)[:2]
        (0.025, 0.25)
    """
    low, high, n = 0.0, most, len(scores)
    if n == 0:
        return Found(0.0, 0.0, wanted, 0, "no hot input is in the sample")
    share = 0.0
    for _ in range(rounds):
        threshold = (low + high) / 2
        share = float((scores < threshold).sum() / n)
        if abs(share - wanted) <= tolerance:
            why = "" if abs(share - wanted) <= _ALIKE else f"within the tolerance of {tolerance:g}"
            return Found(threshold, share, wanted, n, why)
        low, high = (low, threshold) if share > wanted else (threshold, high)
    return Found(
        0.0,
        0.0,
        wanted,
        n,
        f"in {rounds} rounds no threshold up to {most:g} came within {tolerance:g} of the share: "
        f"the last one gave {share:.3f}",
    )
