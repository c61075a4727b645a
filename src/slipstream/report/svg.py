"""Plots as SVG: small files that need nothing else, for the page and for papers alike.

A plot is drawn once, as it is seen without a script. The page's script adds what moves: values
where one points, and series that the legend switches off. For that every mark says which series it
belongs to (`data-k`), and the points of lines are given beside the picture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

from slipstream.report.axes import Axis, Scale, scale_of, ticks

WIDTH, HEIGHT = 380, 250  # narrow enough to be read on a telephone, two abreast elsewhere
_LEFT, _RIGHT, _TOP, _FOOT = 56, 10, 10, 36
_KEY_ROW, _LETTER, _LONGEST = 16, 6.1, 50
COLOURS = 8
Point = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """A line, or points.

    Args:
        key: Names it across plots: what the legend switches.
        name: What the legend calls it.
        colour: Which of the eight colours.
        points: Where it goes.
        detail: What else is said of its points, such as the seed.
        line: Whether points are joined.
        quiet: Whether it stays in the background, without a place in the legend.
        dashed: Whether its line has gaps that let others be seen under it.
    """

    key: str
    name: str
    colour: int
    points: Sequence[Point]
    detail: str = ""
    line: bool = True
    quiet: bool = False
    dashed: bool = False


@dataclass(frozen=True)
class Segment:
    """A part of a bar: which part, how long, and what is said of it."""

    key: str
    name: str
    colour: int
    length: float
    tip: str


@dataclass(frozen=True)
class Plot:
    """A picture.

    Args:
        name: Of its file.
        title: Above it.
        x: The axis along.
        y: The axis up; of bars it is not used.
        series: Lines and points.
        bars: Bars by name, each in parts.
        marks: Places along x that a line with a word marks.
        text: What it shows, for those who do not see it, and under it.
    """

    name: str
    title: str
    x: Axis
    y: Axis | None = None
    series: Sequence[Series] = ()
    bars: Sequence[tuple[str, Sequence[Segment]]] = ()
    marks: Sequence[tuple[float, str]] = ()
    text: str = ""


@dataclass
class Drawn:
    """A plot as SVG, and the points that a script can point at."""

    svg: str
    points: list[dict[str, object]] = field(default_factory=list)


def draw(plot: Plot) -> Drawn:
    """Draw a plot; the same plot gives the same text."""
    return _bars(plot) if plot.bars else _lines(plot)


def _lines(plot: Plot) -> Drawn:
    assert plot.y is not None
    xs = [x for one in plot.series for x, _ in one.points] + [x for x, _ in plot.marks]
    ys = [y for one in plot.series for _, y in one.points]
    bottom = HEIGHT - _FOOT
    x = scale_of(plot.x, xs, _LEFT, WIDTH - _RIGHT)
    y = scale_of(plot.y, ys, bottom, _TOP)
    drawn = Drawn("")
    parts = [*_grid(plot.x, x, plot.y, y, bottom)]
    for number, (place, word) in enumerate(plot.marks):
        at = x(place)
        anchor = "end" if at > WIDTH / 2 else "start"
        shift = -4 if anchor == "end" else 4
        parts.append(f'<path class="at" d="M{at} {_TOP}V{bottom}"/>')
        parts.append(
            f'<text x="{at + shift:g}" y="{bottom - 6 - 13 * number}" text-anchor="{anchor}">'
            f"{escape(word)}</text>"
        )
    for one in plot.series:
        places = [
            (x(a), y(b), a, b)
            for a, b in one.points
            if (a > 0 or not x.log) and (b > 0 or not y.log)
        ]
        if not places:
            continue
        parts.append(_series(one, [(a, b) for a, b, _, _ in places]))
        name = ", ".join(filter(None, (one.name, one.detail)))
        told = [[a, b, f"{plot.x.exact(u)} · {plot.y.exact(v)}"] for a, b, u, v in places]
        drawn.points.append({"k": one.key, "n": name, "c": one.colour, "p": told})
    keys = {one.key: (one.name, one.colour) for one in plot.series if not one.quiet}
    drawn.svg = _frame(plot, parts, keys if len(keys) > 1 else {}, HEIGHT)
    return drawn


def _series(one: Series, places: Sequence[Point]) -> str:
    style = f"s c{one.colour}" + (" quiet" * one.quiet) + (" d" * one.dashed)
    dots = ""
    if not one.line or len(places) <= 12:
        radius = 3.5 if not one.line else 2
        dots = "".join(f'<circle cx="{a:g}" cy="{b:g}" r="{radius}"/>' for a, b in places)
    path = ""
    if one.line and len(places) > 1:
        path = f'<path d="M{" ".join(f"{a:g} {b:g}" for a, b in places)}"/>'
    return f'<g class="{style}" data-k="{escape(one.key)}">{path}{dots}</g>'


def _bars(plot: Plot) -> Drawn:
    row, bar = 26, 16
    longest = max(len(name) for name, _ in plot.bars)
    left = min(130, max(40, longest * _LETTER + 8))
    height = _TOP + row * len(plot.bars) + _FOOT
    bottom = height - _FOOT
    totals = [sum(one.length for one in parts) for _, parts in plot.bars]
    x = scale_of(plot.x, [0.0, *totals], left, WIDTH - _RIGHT)
    parts = [*_along(plot.x, x, bottom)]
    keys: dict[str, tuple[str, int]] = {}
    for number, (name, segments) in enumerate(plot.bars):
        top = _TOP + row * number + (row - bar) / 2
        shown = name if len(name) * _LETTER <= left - 6 else name[: int(left / _LETTER) - 2] + "…"
        parts.append(
            f'<text x="{left - 6:g}" y="{top + bar / 2 + 4:g}" text-anchor="end">{escape(shown)}'
            f"<title>{escape(name)}</title></text>"
        )
        begun = 0.0
        for one in segments:
            keys.setdefault(one.key, (one.name, one.colour))
            at, end = x(begun), x(begun + one.length)
            begun += one.length
            parts.append(
                f'<rect class="s c{one.colour}" data-k="{escape(one.key)}" x="{at:g}" y="{top:g}" '
                f'width="{max(0.0, end - at):.1f}" height="{bar}" data-tip="{escape(one.tip)}"/>'
            )
    return Drawn(_frame(plot, parts, keys if len(keys) > 1 else {}, height))


def _grid(along: Axis, x: Scale, up: Axis, y: Scale, bottom: float) -> Iterator[str]:
    for value in ticks(y, bytes_=up.bytes):
        at = y(value)
        yield f'<path class="grid" d="M{_LEFT} {at}H{WIDTH - _RIGHT}"/>'
        shown = escape(up.shown(value))
        yield f'<text x="{_LEFT - 5}" y="{at + 4:g}" text-anchor="end">{shown}</text>'
    middle = (_TOP + bottom) / 2
    yield (
        f'<text class="label" transform="translate(10 {middle:g}) rotate(-90)" '
        f'text-anchor="middle">{escape(up.label)}</text>'
    )
    yield from _along(along, x, bottom)


def _along(axis: Axis, x: Scale, bottom: float) -> Iterator[str]:
    for value in ticks(x, bytes_=axis.bytes):
        at = x(value)
        yield f'<path class="grid" d="M{at} {_TOP}V{bottom:g}"/>'
        anchor = "end" if at > WIDTH - 22 else "middle"
        yield (
            f'<text x="{at:g}" y="{bottom + 14:g}" text-anchor="{anchor}">'
            f"{escape(axis.shown(value))}</text>"
        )
    yield (
        f'<text class="label" x="{(x.begin + x.end) / 2:g}" y="{bottom + 30:g}" '
        f'text-anchor="middle">{escape(axis.label)}</text>'
    )


def _frame(
    plot: Plot, parts: Sequence[str], keys: dict[str, tuple[str, int]], height: float
) -> str:
    legend, rows = [], 0
    at = float(_LEFT)
    for key, (name, colour) in keys.items():
        shown = name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
        wide = 16 + len(shown) * _LETTER + 12
        if at + wide > WIDTH and at > _LEFT:
            at, rows = float(_LEFT), rows + 1
        top = height + 6 + rows * _KEY_ROW
        legend.append(
            f'<g class="key" data-k="{escape(key)}" tabindex="0" role="button" aria-pressed="true">'
            f'<rect class="hit" x="{at - 2:g}" y="{top - 3:g}" width="{wide - 4:.1f}" height="15"/>'
            f'<rect class="c{colour}" x="{at:g}" y="{top:g}" width="10" height="10" rx="2"/>'
            f'<text x="{at + 14:g}" y="{top + 9:g}">{escape(shown)}</text></g>'
        )
        at += wide
    total = height + ((rows + 1) * _KEY_ROW + 8 if keys else 0)
    return (
        f'<svg class="plot" data-plot="{escape(plot.name)}" viewBox="0 0 {WIDTH} {total:g}" '
        f'role="img" aria-label="{escape(plot.title)}. {escape(plot.text)}" '
        'xmlns="http://www.w3.org/2000/svg">'
        f"{''.join(parts)}{''.join(legend)}</svg>"
    )
