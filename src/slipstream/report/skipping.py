"""Pictures of runs that leave inputs out: how many, at what price, and why."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.number_format import decimal, percent
from slipstream.report.axes import INPUTS, Axis
from slipstream.report.results import Result
from slipstream.report.runs import RunRecord
from slipstream.report.svg import COLOURS, Plot, Point, Series
from slipstream.report.variants import Setting


def skipping_plots(
    setting: Setting, results: Sequence[Result], numbers: dict[str, int]
) -> list[Plot]:
    """The pictures of runs that skip; none where no run does.

    Args:
        setting: Its runs, by variant.
        results: What they reached.
        numbers: The number of each label.
    """
    if not any(one.skips for one in setting.variants):
        return []
    share = Axis("share skipped", shown=percent, exact=lambda v: f"{v:.1%} skipped", least=0.0)
    auc = Axis("change of AUC", shown=decimal, exact=lambda value: f"AUC {value:+.4f}")
    over = [
        Series(
            f"v{numbers[variant.label]}",
            variant.label,
            numbers[variant.label] % COLOURS,
            points,
            f"seed {run.seed}",
            dashed=True,
        )
        for variant in setting.variants
        for run in variant.runs
        if len(points := _shares(run)) > 1
    ]
    against = [
        Series(
            f"v{numbers[one.label]}",
            one.label,
            numbers[one.label] % COLOURS,
            [(one.values["skip_share"][seed], auc - base[seed])],
            f"seed {seed}",
            line=False,
        )
        for one, base in _with_baseline(results)
        for seed, auc in one.values.get("auc", {}).items()
        if seed in base and seed in one.values.get("skip_share", {})
    ]
    return [
        Plot(
            "skip-share",
            "Share skipped over time",
            INPUTS,
            share,
            over,
            text="A line for each run.",
        ),
        Plot(
            "skip-auc",
            "Change of AUC against share skipped",
            share,
            auc,
            against,
            text="A point for each run: its AUC less that of the baseline with the same seed. "
            "Random skipping is the control: a rule is worth its trouble where it lies above that.",
        ),
    ]


def _with_baseline(results: Sequence[Result]) -> list[tuple[Result, dict[int, float]]]:
    """Each result with the AUC of its baseline, by seed; a baseline is its own."""
    by_label = {one.label: one.values.get("auc", {}) for one in results}
    return [(one, by_label[one.baseline.label if one.baseline else one.label]) for one in results]


def _shares(run: RunRecord) -> list[Point]:
    """The share skipped by each decision, at the two ends of the inputs that it judged."""
    decisions = ((run.summary or {}).get("skipping") or {}).get("decisions") or []
    points: list[Point] = []
    for one in decisions:
        if one.get("share") is not None:
            begun = points[-1][0] if points else 0.0
            points += [(begun, one["share"]), (begun + one["inputs"], one["share"])]
    return points
