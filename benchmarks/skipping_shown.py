"""Tables and pictures of the benchmark of skipping."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from skipping_points import FULL, Found, Point, control_at, narrow, ratio

from slipstream.report.axes import Axis
from slipstream.report.page import standalone
from slipstream.report.statistics import interval
from slipstream.report.svg import COLOURS, Plot, Series
from slipstream.skipping.rules import RULES

CONTROLS = ("random", "random-hot")


def table_of(part: str, found: Found) -> str:
    """The points of a setting as a Markdown table."""
    if part == "overhead":
        return _table(
            ("rule", "skipped", "overhead", "the guard", "seeds"),
            [
                (
                    one.rule,
                    _percent(statistics.fmean(one.skipped.values())),
                    _percent(statistics.fmean(one.overhead.values()), 2),
                    _percent(statistics.fmean(one.audit.values()), 2),
                    str(len(one.runs)),
                )
                for one in _ordered(found)
                if one.rule != FULL
            ],
        )
    full = next((one for one in found.values() if one.rule == FULL), None)
    lines = []
    if full is not None:
        auc = interval([one["auc"] for one in full.runs.values()])
        oracle = next(iter(full.runs.values())).get("oracle_auc")
        best = f", the oracle's on its labels {oracle:.5f}" if oracle else ""
        lines.append(
            f"Full training: AUC {auc.mean:.5f}{best}, calibration {full.calibration:.4f}, "
            f"{auc.seeds} seeds.\n"
        )
    heads = ("rule", "asked", "skipped", "AUC lost", "95 %", "spread", *CONTROLS)
    rows = [_row(one, found) for one in _ordered(found) if one.rule != FULL]
    return "\n".join([*lines, _table((*heads, "calibration", "time saved", "seeds"), rows)])


def _row(one: Point, found: Found) -> tuple[str, ...]:
    loss = interval(list(one.loss.values()))
    half = "" if loss.high is None else f"± {loss.high - loss.mean:.5f}"
    spread = f"{statistics.stdev(one.loss.values()):.5f}" if loss.seeds > 1 else ""
    against = [ratio(one.loss, control_at(found, name, one.skipped)) for name in CONTROLS]
    return (
        one.rule,
        _percent(one.share, 0),
        _percent(statistics.fmean(one.skipped.values())),
        f"{loss.mean:.5f}" + ("" if narrow(one.loss) else " (wide)"),
        half,
        spread,
        *("" if one is None else f"{one:.2f}" for one in against),
        f"{one.calibration:.4f}",
        _percent(one.time_saved, 0),
        str(loss.seeds),
    )


def plot_of(setting: str, found: Found) -> str:
    """AUC lost against the share skipped, a line for each rule that skips inputs, as SVG."""
    skips = {one.rule for one in found.values() if one.skips}
    series = []
    for number, rule in enumerate(RULES):  # the same colour in every picture
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
    lost = Axis("AUC lost", shown=lambda v: f"{v:.4g}")
    text = "The mean over seeds of full training's AUC less that of the rule. Controls are dashed."
    return standalone(
        Plot("skipping", f"What skipping costs: {setting}", share, lost, series, text=text)
    )


def _ordered(found: Found) -> list[Point]:
    """By share, then as measured."""
    return sorted(found.values(), key=lambda one: one.share)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    marks = ["---", *["---:"] * (len(heads) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (heads, marks, *rows))


def _percent(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f} %"
