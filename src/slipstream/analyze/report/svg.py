"""Draws plots as SVG, the same for the page and for papers.

A plot is complete without a script. The page's script adds values where the user points, and
series that the legend switches off: every mark names its series (`data-k`), and the points of each
series are returned beside the picture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from slipstream.number_format import compact

WIDTH, HEIGHT = 380, 250  # readable on a telephone, two side by side elsewhere
COLOURS = 8
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, WIDTH - 10, 10, HEIGHT - 36
_LEGEND_ROW, _LETTER, _LONGEST = 16, 6.1, 50
Point = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """One axis of a plot."""

    label: str
    shown: Callable[[float], str] = compact  # the value of a tick
    exact: Callable[[float], str] = compact  # the value of a point
    least: float | None = None  # the lowest possible value, where the axis begins


@dataclass(frozen=True)
class Series:
    """A line or a set of points."""

    key: str  # by which the legend switches it in all plots
    name: str  # in the legend
    colour: int  # one of the eight colours
    points: Sequence[Point]
    detail: str = ""  # of its points, such as the seed
    line: bool = True
    dashed: bool = False


@dataclass(frozen=True)
class Plot:
    """A picture."""

    name: str  # of its file
    title: str  # above it
    x: Axis
    y: Axis
    series: Sequence[Series]
    text: str = ""  # below it


@dataclass(frozen=True)
class Scale:
    """Maps the values from `low` to `high` to the places from `begin` to `end`."""

    low: float
    high: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        """The place of a value, rounded to a tenth."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.begin + share * (self.end - self.begin), 1)


def scale_of(axis: Axis, values: Sequence[float], begin: float, end: float) -> Scale:
    """A scale that includes all values, with a small margin."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if axis.least is not None:
        low = axis.least
    margin = (high - low) * 0.04 or abs(high) * 0.1 or 1.0
    return Scale(low if axis.least is not None else low - margin, high + margin, begin, end)


def ticks(scale: Scale) -> list[float]:
    """About five round values on a scale.

    Example:
        >>> ticks(Scale(0.0, 1.0, 0, 100))
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    rough = (scale.high - scale.low) / 5
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * n for n in (1, 2, 2.5, 5, 10) if power * n >= rough * 0.999)
    first, last = math.ceil(scale.low / step - 1e-9), math.floor(scale.high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def draw(plot: Plot) -> tuple[str, list[dict[str, object]]]:
    """Draw a plot; the same plot gives the same text.

    Returns:
        The SVG, and for each series its key, its name and its points for the page's script.
    """
    x = scale_of(plot.x, [x for series in plot.series for x, _ in series.points], _LEFT, _RIGHT)
    y = scale_of(plot.y, [y for series in plot.series for _, y in series.points], _BOTTOM, _TOP)
    parts = [*_axes(plot, x, y)]
    points: list[dict[str, object]] = []
    for series in plot.series:
        parts.append(_series(series, [(x(a), y(b)) for a, b in series.points]))
        name = ", ".join(filter(None, (series.name, series.detail)))
        places = [(x(a), y(b), f"{plot.x.exact(a)} · {plot.y.exact(b)}") for a, b in series.points]
        points.append({"k": series.key, "n": name, "p": places})
    return _frame(plot, parts), points


def _series(series: Series, places: Sequence[Point]) -> str:
    style = f"s c{series.colour}" + " d" * series.dashed
    dots = path = ""
    if not series.line or len(places) <= 12:
        radius = 2 if series.line else 3.5
        dots = "".join(f'<circle cx="{a:g}" cy="{b:g}" r="{radius}"/>' for a, b in places)
    if series.line and len(places) > 1:
        path = f'<path d="M{" ".join(f"{a:g} {b:g}" for a, b in places)}"/>'
    return f'<g class="{style}" data-k="{escape(series.key)}">{path}{dots}</g>'


def _text(x: float, y: float, anchor: str, words: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def _axes(plot: Plot, x: Scale, y: Scale) -> Iterator[str]:
    for value in ticks(y):
        yield f'<path class="grid" d="M{_LEFT} {y(value)}H{_RIGHT}"/>'
        yield _text(_LEFT - 5, y(value) + 4, "end", plot.y.shown(value))
    for value in ticks(x):
        at = x(value)
        yield f'<path class="grid" d="M{at} {_TOP}V{_BOTTOM}"/>'
        anchor = "end" if at > WIDTH - 22 else "middle"
        yield _text(at, _BOTTOM + 14, anchor, plot.x.shown(value))
    label = ' class="label"'
    yield _text((_LEFT + _RIGHT) / 2, _BOTTOM + 30, "middle", plot.x.label, label)
    turned = f'{label} transform="translate(10 {(_TOP + _BOTTOM) / 2:g}) rotate(-90)"'
    yield _text(0, 0, "middle", plot.y.label, turned)


def _frame(plot: Plot, parts: Sequence[str]) -> str:
    """The SVG element, with the legend under the picture if there are several names."""
    keys = {s.key: (s.name, s.colour) for s in plot.series}
    legend, at, top = [], float(_LEFT), HEIGHT + 6
    for key, (name, colour) in keys.items() if len(keys) > 1 else ():
        shown = name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
        wide = 28 + len(shown) * _LETTER
        if at + wide > WIDTH and at > _LEFT:
            at, top = float(_LEFT), top + _LEGEND_ROW
        legend.append(
            f'<g class="key" data-k="{escape(key)}" tabindex="0" role="button" aria-pressed="true">'
            f'<rect class="hit" x="{at - 2:g}" y="{top - 3}" width="{wide - 4:.1f}" height="15"/>'
            f'<rect class="c{colour}" x="{at:g}" y="{top}" width="10" height="10" rx="2"/>'
            f"{_text(at + 14, top + 9, 'start', shown)}</g>"
        )
        at += wide
    height = top + _LEGEND_ROW + 2 if legend else HEIGHT
    return (
        f'<svg class="plot" data-plot="{escape(plot.name)}" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" aria-label="{escape(plot.title)}. {escape(plot.text)}" '
        'xmlns="http://www.w3.org/2000/svg">'
        f"{''.join(parts)}{''.join(legend)}</svg>"
    )
