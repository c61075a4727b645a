"""What docs/skipping.md shows of the benchmark, made from its results."""

from __future__ import annotations

import re
import statistics
import textwrap
from pathlib import Path
from typing import NamedTuple

from benchmarks.skipping.points import FULL, Found, Point, Points, control_at, ratio
from benchmarks.skipping.shown import lost, part_of, percent, plot_of, table
from benchmarks.skipping.tasks import NAMES

SHOWN = (0.3, 0.52)
_FEW = 0.02  # of inputs: a part of what random loses there is a part of nearly nothing
_WIDE = 104


class _Place(NamedTuple):
    """A block of the page: a part, its settings by positives, names of pictures, what it is."""

    part: str
    setting: str
    picture: str
    lead: str


_PLACES = {
    "stationary": _Place(
        "curves",
        "{} % positive, stationary",
        "skipping-{}-positive.svg",
        "Built-in data of shape `effects`, on which rows saturate.",
    ),
    "drifting": _Place(
        "curves",
        "{} % positive, drifting",
        "skipping-{}-positive-drifting.svg",
        "The same with popularity and teacher drifting. Here a model is scored nine times over the "
        "last 40 % of a run on the inputs that come next, and the nine AUCs are averaged: far "
        "ahead everything has drifted away from any model, and a single moment is mostly luck.",
    ),
    "method": _Place(
        "method",
        "{} % positive, stationary, cold inputs first",
        "",
        "The published method trains cold inputs first. In that order, beside full training and "
        "controls in the same order.",
    ),
}


_LOG = (
    "On a real log of 0.9 M clicks (`examples/globo.yaml` without its history: 3.8 M inputs to "
    "train on), scored as where things drift, but against its labels:"
)


def write_docs(points: Points, folder: Path) -> list[Path]:
    """Fill the tables between their marks in skipping.md, and draw its pictures.

    What was not measured stays as it is.

    Returns:
        The files that were written.
    """
    page = folder / "skipping.md"
    text, written = page.read_text(encoding="utf-8"), [page]
    for name, place in _PLACES.items():
        both = {at: points.get((place.part, place.setting.format(at)), {}) for at in (25, 3)}
        if not all(both.values()):
            continue
        lines = [textwrap.fill(f"{place.lead} {_about(both)}", _WIDE), "", summary(both), ""]
        for at, found in both.items() if place.picture else ():
            file = folder / place.picture.format(at)
            file.write_text(plot_of(place.setting.format(at), found), encoding="utf-8")
            lines += [f"![AUC lost by share skipped, {at} % positives, {name}]({file.name})", ""]
            written.append(file)
        text = _filled(text, name, "\n".join(lines))
    logged = [found for (part, _), found in points.items() if part == "log"]
    if logged:
        text = _filled(text, "log", "\n".join([textwrap.fill(_LOG, _WIDE), "", _log(logged[-1])]))
    page.write_text(text, encoding="utf-8")
    return written


def _filled(text: str, name: str, made: str) -> str:
    marks = re.compile(rf"<!-- measured: {name} -->\n.*?<!-- end -->", re.DOTALL)
    if not marks.search(text):
        raise SystemExit(f"skipping.md has no marks for a table named {name!r}.")
    return marks.sub(lambda _: f"<!-- measured: {name} -->\n\n{made}\n<!-- end -->", text)


def _about(both: dict[int, Found]) -> str:
    """How far full training is from the oracle, and how well losses are known."""
    told, seeds, settled, tried, inputs = [], set(), 0, 0, 0
    for at, found in both.items():
        full = found.get((FULL, 0.0))
        if full is not None:
            auc = statistics.fmean(one["auc"] for one in full.runs.values())
            best = next(iter(full.runs.values()))["oracle_auc"]
            inputs = next(iter(full.runs.values()))["inputs_total"]
            told.append(f"{best - auc:.4f} at {at} % positives")
        rules = [one for one in found.values() if one.rule != FULL]
        seeds |= {len(one.runs) for one in rules}
        settled += sum(one.standing.settled for one in rules)
        tried += len(rules)
    few = f"{min(seeds)} to {max(seeds)}" if len(seeds) > 1 else str(max(seeds))
    return (
        f"Full training, on {inputs / 1e6:.2g} M inputs, is {' and '.join(told)} from the oracle. "
        f"{few} seeds; {settled} of {tried} losses at all shares are settled, `*` marks those that "
        "are not."
    )


def _log(found: Found) -> str:
    """A line for each rule and share."""
    heads = ("rule", "skipped", "AUC lost", "of random's loss", "settled", "seeds")
    rows = []
    for rule, one in ((rule, one) for rule in NAMES for one in found.values() if one.rule == rule):
        part = ratio(one.loss, control_at(found, "random", one.skipped))
        share = statistics.fmean(one.skipped.values())
        few = part is None or rule == "random" or share < _FEW
        words = "nothing skipped" if one.nothing else one.standing.words
        cells = (" ".join(lost(one)), "" if few else part_of(part), words, str(len(one.runs)))
        rows.append((f"`{rule}`", percent(share, 0), *cells))
    return table(heads, rows) + "\n"


def summary(both: dict[int, Found]) -> str:
    """Every rule by positives and share."""
    columns = [(positives, share) for positives in both for share in SHOWN]
    heads = [
        "rule",
        *(f"{positives} %, {percent(share, 0)} skipped" for positives, share in columns),
    ]
    rows = []
    for rule in NAMES:
        cells = [both[positives].get((rule, share)) for positives, share in columns]
        if any(cells):
            asked = [share for _, share in columns]
            of = " (of row updates)" if rule == "freeze" else ""
            rows.append([f"`{rule}`{of}", *map(_cell, cells, asked)])
    return table(heads, rows)


def _cell(one: Point | None, asked: float) -> str:
    """A loss with its interval, marked where it is not settled, and the share if it is another."""
    if one is None or one.nothing:
        return "" if one is None else "nothing skipped"
    skipped = statistics.fmean(one.skipped.values())
    other = f" ({percent(skipped, 0)})" if abs(skipped - asked) > 0.02 else ""
    mark = "" if one.standing.settled else " *"
    return " ".join(part for part in lost(one) if part) + other + mark
