"""The plots of a group of runs. A plot without data is left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slipstream.analyze.report.results import Result
from slipstream.analyze.report.runs import RunRecord
from slipstream.analyze.report.settings import RunGroup
from slipstream.analyze.report.svg import COLOURS, Axis, Plot, Point, Series
from slipstream.number_format import compact, decimal, percent, signed

_EXAMPLES = Axis("examples", exact=lambda value: f"{value:,.0f} examples", least=0.0)
_SECONDS = Axis(
    "seconds of training, after the first report", exact=lambda v: f"{compact(v)} s", least=0.0
)
_AUC = Axis("AUC", shown=decimal, exact=lambda v: f"AUC {v:.4f}")
_SKIPPED = Axis("share skipped", shown=percent, exact=lambda v: f"{v:.1%} skipped", least=0.0)
_CHANGE = Axis("change of AUC", shown=decimal, exact=lambda v: f"AUC {signed(v, 4)}")


def colours_of(groups: Sequence[RunGroup]) -> dict[str, int]:
    """A number for each label, which is its colour in every plot."""
    labels = dict.fromkeys(each.label for group in groups for each in group.settings)
    return {label: number for number, label in enumerate(labels)}


def plots_of(group: RunGroup, results: Sequence[Result], numbers: dict[str, int]) -> list[Plot]:
    """The plots of a group; `numbers` are those of `colours_of`."""

    def lines(points_of: Callable[[RunRecord], list[Point]]) -> list[Series]:
        return [
            _series(numbers, setting.label, points, run)
            for setting in group.settings
            for run in (*setting.runs, *setting.unfinished)
            if (points := points_of(run))
        ]

    text = "AUC of the evaluation data. A line for each run."
    examples, seconds = lines(_auc_over_examples), lines(lambda run: run.auc_over_time)
    prices: list[Series] = []
    if any(setting.skips for setting in group.settings):
        prices = [series for result in results for series in _prices(result, results, numbers)]
    return [
        plot
        for plot in (
            Plot("auc-inputs", "AUC against examples", _EXAMPLES, _AUC, examples, text),
            Plot("auc-time", "AUC against time", _SECONDS, _AUC, seconds, text),
            Plot("skip-auc", _PRICE_TITLE, _SKIPPED, _CHANGE, prices, _PRICE_TEXT),
        )
        if plot.series
    ]


_PRICE_TITLE = "Change of AUC against share skipped"
_PRICE_TEXT = (
    "A point for each run: its AUC less the AUC of the baseline with the same seed. The rule "
    "random is the control: another rule is worth its cost if it lies above random at the same "
    "share skipped."
)


def _series(
    numbers: dict[str, int], label: str, points: list[Point], run: RunRecord, *, line: bool = True
) -> Series:
    number = numbers[label]
    detail = f"seed {run.seed}" + ", unfinished" * (run.summary is None)
    return Series(f"v{number}", label, number % COLOURS, points, detail, line=line, dashed=line)


def _auc_over_examples(run: RunRecord) -> list[Point]:
    lines = run.of_kind("evaluation")
    return [(float(line["position"]), line["auc"]) for line in lines if line.get("auc") is not None]


def _prices(result: Result, results: Sequence[Result], numbers: dict[str, int]) -> list[Series]:
    """A point for each seed: the share skipped, and the change of AUC."""
    label = (result.baseline or result.setting).label
    base = next(each.values.get("auc", {}) for each in results if each.label == label)
    shares, aucs = (result.values.get(name, {}) for name in ("skip_share", "auc"))
    points = {
        run.seed: (run, [(shares[run.seed], aucs[run.seed] - base[run.seed])])
        for run in result.setting.runs
        if all(run.seed in values for values in (shares, aucs, base))
    }
    return [
        _series(numbers, result.label, point, run, line=False) for run, point in points.values()
    ]
