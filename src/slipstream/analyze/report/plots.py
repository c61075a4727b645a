"""The plots of a group of runs. A plot without data is left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slipstream.analyze.report.results import Result
from slipstream.analyze.report.runs import RunRecord
from slipstream.analyze.report.settings import Group
from slipstream.analyze.report.svg import COLOURS, Axis, Plot, Point, Series
from slipstream.number_format import compact, decimal, percent

_EXAMPLES = Axis("examples", exact=lambda value: f"{value:,.0f} examples", least=0.0)
_SECONDS = Axis(
    "seconds of training, after the first report", exact=lambda v: f"{compact(v)} s", least=0.0
)
_AUC = Axis("AUC", shown=decimal, exact=lambda v: f"AUC {v:.4f}")
_SKIPPED = Axis("share skipped", shown=percent, exact=lambda v: f"{v:.1%} skipped", least=0.0)
_CHANGE = Axis(
    "change of AUC",
    shown=decimal,
    exact=lambda v: f"AUC {v:+.4f}".replace("-", "−"),
)


def colours_of(groups: Sequence[Group]) -> dict[str, int]:
    """A number for each label, which is its colour in every plot."""
    labels = dict.fromkeys(each.label for group in groups for each in group.settings)
    return {label: number for number, label in enumerate(labels)}


def plots_of(group: Group, results: Sequence[Result], numbers: dict[str, int]) -> list[Plot]:
    """The plots of a group.

    Args:
        group: Its runs, by setting.
        results: Their results.
        numbers: The number of each label, by `colours_of`.
    """

    def lines(points_of: Callable[[RunRecord], list[Point]]) -> list[Series]:
        return [
            _series(numbers, setting.label, points, run.seed, unfinished=run.summary is None)
            for setting in group.settings
            for run in (*setting.runs, *setting.unfinished)
            if (points := points_of(run))
        ]

    each_run = "A line for each run."
    over_examples, over_time = lines(_auc_over_examples), lines(lambda run: run.auc_over_time)
    text = f"AUC of the evaluation data. {each_run}"
    plots = [
        Plot("auc-inputs", "AUC against examples", _EXAMPLES, _AUC, over_examples, text=text),
        Plot("auc-time", "AUC against time", _SECONDS, _AUC, over_time, text=text),
        Plot(
            "skip-share",
            "Share skipped over time",
            _EXAMPLES,
            _SKIPPED,
            lines(_shares_skipped),
            text=each_run,
        ),
    ]
    if any(setting.skips for setting in group.settings):
        text = (
            "A point for each run: its AUC less the AUC of the baseline with the same seed. The "
            "rule random is the control: another rule is worth its cost if it lies above random "
            "at the same share skipped."
        )
        title = "Change of AUC against share skipped"
        points = _prices(results, numbers)
        plots.append(Plot("skip-auc", title, _SKIPPED, _CHANGE, points, text=text))
    return [plot for plot in plots if plot.series]


def _series(
    numbers: dict[str, int],
    label: str,
    points: list[Point],
    seed: int,
    *,
    line: bool = True,
    unfinished: bool = False,
) -> Series:
    number = numbers[label]
    detail = f"seed {seed}" + ", unfinished" * unfinished
    return Series(f"v{number}", label, number % COLOURS, points, detail, line=line, dashed=line)


def _auc_over_examples(run: RunRecord) -> list[Point]:
    lines = run.of_kind("evaluation")
    return [(float(line["position"]), line["auc"]) for line in lines if line.get("auc") is not None]


def _shares_skipped(run: RunRecord) -> list[Point]:
    """The share that each decision skipped, at both ends of the examples that it judged."""
    points: list[Point] = []
    for decision in ((run.summary or {}).get("skipping") or {}).get("decisions") or []:
        share = decision.get("share")
        if share is not None:
            begin = points[-1][0] if points else 0.0
            points += [(begin, share), (begin + decision["inputs"], share)]
    return points


def _prices(results: Sequence[Result], numbers: dict[str, int]) -> list[Series]:
    auc = {result.label: result.values.get("auc", {}) for result in results}
    return [
        _series(
            numbers,
            result.label,
            [(result.values["skip_share"][seed], mine - baseline[seed])],
            seed,
            line=False,
        )
        for result in results
        for baseline in [auc[(result.baseline or result.setting).label]]
        for seed, mine in auc[result.label].items()
        if seed in baseline and seed in result.values.get("skip_share", {})
    ]
