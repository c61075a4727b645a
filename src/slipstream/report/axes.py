"""Axes of plots: where values lie, and where ticks stand and what they say."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slipstream.number_format import compact


@dataclass(frozen=True)
class Axis:
    """One axis.

    Args:
        label: What is on it, with its unit.
        log: Whether equal steps are equal ratios.
        bytes: Whether round values are powers of two.
        shown: Writes a value, on ticks.
        exact: Writes a value where it is pointed at.
        least: A value that it must reach down to.
        most: One that it must reach up to.
    """

    label: str
    log: bool = False
    bytes: bool = False
    shown: Callable[[float], str] = compact
    exact: Callable[[float], str] = compact
    least: float | None = None
    most: float | None = None


INPUTS = Axis("inputs", exact=lambda value: f"{value:,.0f} inputs", least=0.0)


@dataclass(frozen=True)
class Scale:
    """From values to places along an axis.

    Args:
        low: The value at its beginning.
        high: The value at its end.
        begin: The place of its beginning.
        end: The place of its end.
        log: Whether equal steps are equal ratios.
    """

    low: float
    high: float
    begin: float
    end: float
    log: bool

    def __call__(self, value: float) -> float:
        """The place of a value, to a tenth."""
        low, high, here = self.low, self.high, value
        if self.log:
            low, high, here = math.log(low), math.log(high), math.log(value)
        return round(self.begin + (here - low) / (high - low) * (self.end - self.begin), 1)


def scale_of(axis: Axis, values: Sequence[float], begin: float, end: float) -> Scale:
    """The scale on which all values lie, with a little room."""
    some = [*values, *(one for one in (axis.least, axis.most) if one is not None)]
    if axis.log:
        some = [one for one in some if one > 0] or [1.0]
        low, high = min(some), max(some)
        return Scale(low, high if high > low else low * 10, begin, end, True)
    low, high = min(some, default=0.0), max(some, default=1.0)
    room = (high - low) * 0.04 or abs(high) * 0.1 or 1.0
    low = low if axis.least is not None and low >= axis.least else low - room
    high = high if axis.most is not None and high <= axis.most else high + room
    return Scale(low, high, begin, end, False)


def ticks(scale: Scale, about: int = 5, *, bytes_: bool = False) -> list[float]:
    """Round values along a scale; of bytes those that are round in KiB, MiB and so on.

    Example:
        >>> ticks(Scale(0.0, 1.0, 0, 100, False)), ticks(Scale(10, 10_000, 0, 100, True))
        ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [10.0, 100.0, 1000.0, 10000.0])
    """
    if bytes_:
        return _byte_ticks(scale, about)
    return _log_ticks(scale, about) if scale.log else _even_ticks(scale, about)


def _byte_ticks(scale: Scale, about: int) -> list[float]:
    if scale.log:
        low, high = math.ceil(math.log2(scale.low)), math.floor(math.log2(scale.high))
        every = max(1, math.ceil((high - low + 1) / about))
        return [2.0**one for one in range(low, high + 1) if one % every == 0]
    unit = 1024.0 ** max(0, math.floor(math.log(max(1.0, scale.high), 1024)))
    inner = Scale(scale.low / unit, scale.high / unit, scale.begin, scale.end, False)
    return [one * unit for one in _even_ticks(inner, about)]


def _even_ticks(scale: Scale, about: int) -> list[float]:
    rough = (scale.high - scale.low) / about
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * one for one in (1, 2, 2.5, 5, 10) if power * one >= rough * 0.999)
    first, last = math.ceil(scale.low / step - 1e-9), math.floor(scale.high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _log_ticks(scale: Scale, about: int) -> list[float]:
    low, high = math.log10(scale.low), math.log10(scale.high)
    decades = range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)
    every = max(1, math.ceil(len(decades) / (about + 1)))
    chosen = [10.0**one for one in decades if one % every == 0]
    if len(chosen) > 2:
        return chosen
    fine = [m * 10.0**one for one in range(math.floor(low), math.ceil(high) + 1) for m in (1, 2, 5)]
    return [one for one in fine if scale.low * 0.999 <= one <= scale.high * 1.001]
