"""Means and differences with intervals that are right for a handful of seeds.

Three to ten seeds are few: the normal distribution would make intervals too narrow, so they are
Student's. Differences are taken seed by seed, which leaves out what all strategies share: the
luck of the first weights and of the order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from slipstream.student import t_quantile

LEVEL = 0.95
Verdict = Literal["same", "noise", "higher", "lower", "unknown"]


class Interval(NamedTuple):
    """A mean and the interval that holds the true one with 95 % confidence.

    Args:
        mean: Of the values; for ratios their geometric mean.
        low: Where the interval begins; None with a single value, which says nothing about noise.
        high: Where it ends.
        seeds: How many values there are.
    """

    mean: float
    low: float | None
    high: float | None
    seeds: int

    def verdict(self, nothing: float = 0.0) -> Verdict:
        """Whether it is apart from what no difference would give.

        Example:
            >>> interval([0.1, 0.2, 0.15]).verdict(), interval([0.1, -0.2, 0.15]).verdict()
            ('higher', 'noise')
        """
        if self.low is None or self.high is None:
            return "unknown"
        if self.low == self.high == nothing:
            return "same"
        if self.low <= nothing <= self.high:
            return "noise"
        return "higher" if self.low > nothing else "lower"


def interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """The mean of some values with its interval.

    Example:
        >>> found = interval([1.0, 2.0, 3.0])
        >>> found.mean, round(found.low, 3), round(found.high, 3)
        (2.0, -0.484, 4.484)
    """
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return Interval(mean, None, None, count)
    variance = math.fsum((one - mean) ** 2 for one in values) / (count - 1)
    half = t_quantile((1 + level) / 2, count - 1) * math.sqrt(variance / count)
    return Interval(mean, mean - half, mean + half, count)


def difference(
    mine: Mapping[int, float], theirs: Mapping[int, float], level: float = LEVEL
) -> Interval | None:
    """How much larger values are than others of the same seeds; None without a common seed."""
    seeds = [seed for seed in mine if seed in theirs]
    return interval([mine[seed] - theirs[seed] for seed in seeds], level) if seeds else None


def ratio(
    mine: Mapping[int, float], theirs: Mapping[int, float], level: float = LEVEL
) -> Interval | None:
    """How many times as large values are as others of the same seeds.

    Ratios multiply, so their logarithms are averaged: twice and half as large cancel out.

    Example:
        >>> round(ratio({0: 2.0, 1: 8.0}, {0: 1.0, 1: 1.0}).mean, 6)
        4.0
    """
    both = [seed for seed in mine if seed in theirs and mine[seed] > 0 and theirs[seed] > 0]
    if not both:
        return None
    logs = interval([math.log(mine[seed] / theirs[seed]) for seed in both], level)
    if logs.low is None or logs.high is None:
        return Interval(math.exp(logs.mean), None, None, logs.seeds)
    # Two runs timed once each can be apart by more than a number holds.
    low, high = (math.exp(max(-700.0, min(700.0, end))) for end in (logs.low, logs.high))
    return Interval(math.exp(logs.mean), low, high, logs.seeds)
