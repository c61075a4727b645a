"""Tables and pictures of the benchmark of skipping."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.skipping.points import FULL, Found, Point, control_at, ratio
from benchmarks.skipping.tasks import CONTROLS, NAMES

from slipstream.analyze.report.page import standalone
from slipstream.analyze.report.statistics import Interval, interval
from slipstream.analyze.report.svg import COLOURS, Axis, Plot, Series

HEADS = (
    *("rule", "asked", "skipped", "AUC lost", "95 %", "settled", "seeds"),
    *(f"of {one}" for one in CONTROLS),
    *("calibration", "time saved"),
)


def table_of(part: str, found: Found) -> str:
    """The points of a setting as a Markdown table."""
    rules = [one for one in _ordered(found) if one.rule != FULL]
    if part == "overhead":
        heads = ("rule", "skipped", "time saved", "overhead", "most", "control", "seeds")
        return table(heads, [_overhead(one) for one in rules])
    lines = []
    full = next((one for one in found.values() if one.rule == FULL), None)
    if full is not None:
        auc = interval([one["auc"] for one in full.runs.values()])
        oracle = next(iter(full.runs.values())).get("oracle_auc")
        best = f", the oracle's {oracle:.5f}" if oracle else ""
        lines.append(
            f"Full training: AUC {auc.mean:.5f}{best}, calibration {full.calibration:.4f}, "
            f"{auc.seeds} seeds.\n"
        )
    return "\n".join([*lines, table(HEADS, [_row(one, found) for one in rules])])


def _overhead(one: Point) -> tuple[str, ...]:
    return (
        one.rule,
        percent(statistics.fmean(one.skipped.values())),
        percent(one.time_saved),
        percent(statistics.fmean(one.overhead.values()), 2),
        percent(max(one.overhead.values()), 2),
        percent(statistics.fmean(one.control.values()), 2),
        str(len(one.runs)),
    )


def _row(one: Point, found: Found) -> tuple[str, ...]:
    against = [ratio(one.loss, control_at(found, name, one.skipped)) for name in CONTROLS]
    return (
        one.rule,
        percent(one.share, 0),
        percent(statistics.fmean(one.skipped.values())),
        *lost(one),
        "nothing skipped" if one.nothing else one.standing.words,
        str(len(one.runs)),
        *(
            "" if part is None or one.rule == name else part_of(part)
            for name, part in zip(CONTROLS, against, strict=True)
        ),
        f"{one.calibration:.4f}",
        percent(one.time_saved, 0),
    )


def lost(one: Point) -> tuple[str, str]:
    """The mean of what a rule loses, and half of its interval."""
    loss = interval(list(one.loss.values()))
    return f"{loss.mean:.5f}", "" if loss.high is None else f"± {loss.high - loss.mean:.5f}"


def part_of(one: Interval) -> str:
    """A part of something, with half of its interval."""
    return f"{one.mean:.2f}" + ("" if one.high is None else f" ± {one.high - one.mean:.2f}")


def plot_of(setting: str, found: Found) -> str:
    """AUC lost against the share skipped, a line for each rule that skips inputs, as SVG."""
    skips = {one.rule for one in found.values() if one.skips}
    series = []
    for number, rule in enumerate(NAMES):  # the same colour in every picture
        if rule not in skips:
            continue
        points = sorted(
            (statistics.fmean(one.skipped.values()), statistics.fmean(one.loss.values()))
            for one in found.values()
            if one.rule == rule
        )
        dashed = rule in CONTROLS
        series.append(Series(rule, rule, number % COLOURS, [(0.0, 0.0), *points], dashed=dashed))
    share = Axis("share skipped", shown=lambda v: f"{v * 100:g} %", least=0.0)
    axis = Axis("AUC lost", shown=lambda v: f"{v:.4g}")
    text = "The mean over seeds of full training's AUC less that of the rule. Controls are dashed."
    return standalone(
        Plot("skipping", f"What skipping costs: {setting}", share, axis, series, text=text)
    )


def file_of(setting: str) -> str:
    """A setting as part of a file's name."""
    return setting.replace(" %", "").replace(", ", "-").replace(" ", "-")


def _ordered(found: Found) -> list[Point]:
    """By share, then as the rules are listed."""
    rules = [FULL, *CONTROLS, *NAMES]
    return sorted(found.values(), key=lambda one: (one.share, rules.index(one.rule.split(",")[0])))


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    marks = ["---", *["---:"] * (len(heads) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (heads, marks, *rows))


def percent(value: float, digits: int = 1) -> str:
    """A share as people read it."""
    return f"{100 * value:.{digits}f} %"
