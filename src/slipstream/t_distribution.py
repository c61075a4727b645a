"""Student's t distribution, for means of few values."""

from __future__ import annotations

import math
from functools import lru_cache


@lru_cache(maxsize=256)
def t_quantile(probability: float, freedom: int) -> float:
    """The value below which Student's t lies with this probability, which is above one half.

    Example:
        >>> round(t_quantile(0.975, 4), 4)
        2.7764
    """
    low, high = 0.0, 1.0
    while t_below(high, freedom) < probability:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if t_below(middle, freedom) < probability else (low, middle)
    return (low + high) / 2


def t_below(value: float, freedom: int) -> float:
    """The probability that Student's t lies below a value of at least 0.

    For whole degrees of freedom it is a finite sum of powers of a cosine.
    """
    angle = math.atan2(value, math.sqrt(freedom))
    square = math.cos(angle) ** 2
    odd = freedom % 2
    term = math.sin(angle) * (math.cos(angle) if odd else 1.0)
    total = 0.0
    for number in range(2 + odd, freedom + 1, 2):
        total += term
        term *= square * (number - 1) / number
    share = 2 / math.pi * (angle + total) if odd else total
    return (1 + share) / 2
