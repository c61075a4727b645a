"""The measures of each setting, and their differences from the baseline."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from slipstream.analyze.report.runs import RunRecord
from slipstream.analyze.report.settings import RunGroup, Setting
from slipstream.analyze.report.statistics import LEVEL, Interval, difference, interval, ratio

Value = Callable[[RunRecord], "float | None"]
Values = dict[str, dict[int, float]]
_BEYOND = 0.05  # share skipped up to which the line of random skipping is extended


def _summary(*path: str) -> Value:
    def value_of(run: RunRecord) -> float | None:
        value: Any = run.summary
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return None if value is None else float(value)

    return value_of


def _bytes_copied(run: RunRecord) -> float | None:
    each = ((run.summary or {}).get("transfers") or {}).get("per_input")
    return float(each["bytes_in"] + each["bytes_out"]) if each else None


MEASURES: dict[str, Value] = {
    "auc": _summary("auc"),
    "logloss": _summary("logloss"),
    "normalized_entropy": _summary("normalized_entropy"),
    "calibration": _summary("calibration"),
    "inputs_per_second": lambda run: run.inputs_per_second,
    "train_seconds": _summary("train_seconds"),
    "skip_share": _summary("skip_share"),
    "row_updates_frozen": _summary("skipping", "row_updates_frozen"),
    "hot_access_share": _summary("hot_access_share"),
    "bytes_copied_per_input": _bytes_copied,
    "oversized_steps": _summary("transfers", "oversized_steps"),
    "host_bytes": _summary("peak_memory_bytes", "host"),
    "device_bytes": _summary("peak_memory_bytes", "device"),
}
COMPARED = ("auc", "logloss", "normalized_entropy")
"""Measures whose difference from the baseline is reported."""
MIN_SEEDS = 3
"""With fewer seeds the report claims nothing."""


@dataclass(frozen=True)
class Result:
    """A setting with its measures."""

    setting: Setting
    baseline: Setting | None  # None for the baseline itself
    values: Values  # each measure by seed; repeats of a seed are averaged
    means: dict[str, Interval]
    differences: dict[str, Interval] = field(default_factory=dict)  # from the baseline, by measure
    speed_up: Interval | None = None  # examples per second, divided by the baseline's
    against_random: Interval | None = None  # AUC less that of skipping the same share at random
    faster: bool = False  # by more than noise, if all settings are tested together
    same_weights: bool = False  # as the baseline, bit for bit, for every seed

    @property
    def label(self) -> str:
        """The label of the setting."""
        return self.setting.label

    def mean(self, name: str) -> float:
        """The mean of a measure; 0 if no run has it."""
        return self.means[name].mean if name in self.means else 0.0

    def to_json(self) -> dict[str, Any]:
        """All numbers as JSON."""
        compared = {"speed_up": self.speed_up, "against_random": self.against_random}
        return {
            "setting": self.label,
            "baseline": self.baseline.label if self.baseline else None,
            "seeds": sorted(run.seed for run in self.setting.runs),
            "means": {name: mean._asdict() for name, mean in self.means.items()},
            "differences": {name: each._asdict() for name, each in self.differences.items()},
            **{name: each and each._asdict() for name, each in compared.items()},
            "same_weights": self.same_weights,
            "runs": [str(run.folder) for run in self.setting.runs],
        }


def results_of(group: RunGroup) -> list[Result]:
    """The result of each setting that has a run that has ended."""
    values = {setting.label: _values(setting) for setting in group.ended}
    return [_result(setting, group, values) for setting in group.ended]


def _result(setting: Setting, group: RunGroup, values: dict[str, Values]) -> Result:
    measures, baseline = values[setting.label], group.baseline(setting)
    means = {name: interval(list(seeds.values())) for name, seeds in measures.items()}
    if baseline is None or baseline is setting:
        return Result(setting, None, measures, means)
    base = values[baseline.label]
    changes = {name: difference(measures.get(name, {}), base.get(name, {})) for name in COMPARED}
    rates = measures.get("inputs_per_second", {}), base.get("inputs_per_second", {})
    # Among many comparisons at 95 % some exceed noise by chance, so a claim must hold for all
    # comparisons together.
    strict = ratio(*rates, 1 - (1 - LEVEL) / max(1, len(values) - 1))
    return Result(
        setting,
        baseline,
        measures,
        means,
        {name: change for name, change in changes.items() if change is not None},
        ratio(*rates),
        _against_random(setting, group, values),
        strict is not None and strict.seeds >= MIN_SEEDS and strict.verdict(1) == "higher",
        _same_weights(setting, baseline),
    )


def _values(setting: Setting) -> Values:
    values: Values = {}
    for name, value_of in MEASURES.items():
        by_seed: dict[int, list[float]] = {}
        for run in setting.runs:
            if (value := value_of(run)) is not None:
                by_seed.setdefault(run.seed, []).append(value)
        if by_seed:
            values[name] = {seed: sum(each) / len(each) for seed, each in by_seed.items()}
    return values


def _against_random(
    setting: Setting, group: RunGroup, values: dict[str, Values]
) -> Interval | None:
    """The difference from a line through the AUC of random skipping, at the same share skipped.

    For each seed the line begins with training on everything.
    """
    controls = group.random_controls(setting)
    measures = values[setting.label]
    if setting in controls or not controls or not any(measures.get("skip_share", {}).values()):
        return None
    strategy = controls[0].strategy
    trains_all = [each for each in group.ended if not each.skips and each.strategy == strategy]
    random: dict[int, float] = {}
    for seed, share in measures["skip_share"].items():
        points = sorted(
            (values[each.label]["skip_share"][seed], values[each.label]["auc"][seed])
            for each in (*trains_all[:1], *controls)
            if seed in values[each.label].get("auc", {})
        )
        shares = [point[0] for point in points]
        if len(set(shares)) < 2 or not shares[0] <= share <= shares[-1] + _BEYOND:
            continue
        right = min(max(1, bisect_left(shares, share)), len(shares) - 1)
        (x, auc), (next_x, next_auc) = points[right - 1 : right + 1]
        random[seed] = auc + (share - x) / (next_x - x or math.inf) * (next_auc - auc)
    return difference(measures.get("auc", {}), random)


def _same_weights(setting: Setting, baseline: Setting) -> bool:
    digests, expected = (
        {run.seed: (run.summary or {}).get("weights_digest") for run in each.runs}
        for each in (setting, baseline)
    )
    seeds = digests.keys() & expected.keys()
    return bool(seeds) and all(digests[seed] == expected[seed] is not None for seed in seeds)
