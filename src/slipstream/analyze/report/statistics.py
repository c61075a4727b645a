"""Means and differences with intervals for a small number of seeds.

With three to ten seeds the normal distribution would give intervals that are too narrow, so
Student's t distribution is used. Differences are taken seed by seed: first weights and order are
then the same on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from slipstream.t_distribution import t_quantile

LEVEL = 0.95
Verdict = Literal["same", "noise", "higher", "lower", "unknown"]


class Interval(NamedTuple):
    """A mean and its 95 % confidence interval."""

    mean: float  # of ratios the geometric mean
    low: float | None  # None for a single value
    high: float | None
    seeds: int  # the number of values

    def verdict(self, nothing: float = 0.0) -> Verdict:
        """Whether the interval excludes the value that means no difference.

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
        >>> ages = interval([1.0, 2.0, 3.0])
        >>> ages.mean, round(ages.low, 3), round(ages.high, 3)
        (2.0, -0.484, 4.484)
    """
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return Interval(mean, None, None, count)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    half = t_quantile((1 + level) / 2, count - 1) * math.sqrt(variance / count)
    return Interval(mean, mean - half, mean + half, count)


def difference(values: Mapping[int, float], base: Mapping[int, float]) -> Interval | None:
    """The paired difference of values by seed; None without a common seed."""
    differences = [value - base[seed] for seed, value in values.items() if seed in base]
    return interval(differences) if differences else None


def ratio(
    values: Mapping[int, float], base: Mapping[int, float], level: float = LEVEL
) -> Interval | None:
    """The paired ratio of values by seed, averaged by logarithm: twice and half cancel out.

    Example:
        >>> round(ratio({0: 2.0, 1: 8.0}, {0: 1.0, 1: 1.0}).mean, 6)
        4.0
    """
    pairs = [(value, base.get(seed, 0)) for seed, value in values.items()]
    logs = [math.log(value / other) for value, other in pairs if value > 0 and other > 0]
    if not logs:
        return None
    mean, low, high, seeds = interval(logs, level)
    # Two runs can be further apart than a float can hold.
    low, high = (x if x is None else math.exp(max(-700.0, min(700.0, x))) for x in (low, high))
    return Interval(math.exp(mean), low, high, seeds)
