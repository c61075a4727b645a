"""The measures of each setting, and their differences from the baseline."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from slipstream.analyze.report.runs import RunRecord
from slipstream.analyze.report.settings import Group, Setting
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


def _bytes_moved(run: RunRecord) -> float | None:
    each = ((run.summary or {}).get("transfers") or {}).get("per_input")
    return float(each["bytes_in"] + each["bytes_out"]) if each else None


def _deciding_seconds(run: RunRecord) -> float | None:
    seconds = ((run.summary or {}).get("skipping") or {}).get("overhead_seconds")
    return sum(seconds.values()) if seconds else None


MEASURES: dict[str, Value] = {
    "auc": _summary("auc"),
    "logloss": _summary("logloss"),
    "normalized_entropy": _summary("normalized_entropy"),
    "calibration": _summary("calibration"),
    "inputs_per_second": lambda run: run.inputs_per_second,
    "train_seconds": _summary("train_seconds"),
    "start_seconds": lambda run: run.start_seconds,
    "skip_share": _summary("skip_share"),
    "row_updates_frozen": _summary("skipping", "row_updates_frozen"),
    **{
        f"{name}_{which}": _summary("skipping", f"{name}_{which}")
        for name in ("label_rate", "loss")
        for which in ("skipped", "trained")
    },
    "deciding_seconds": _deciding_seconds,
    "hot_access_share": _summary("hot_access_share"),
    "bytes_moved_per_input": _bytes_moved,
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
    """A setting with its measures.

    Args:
        setting: The setting.
        baseline: The setting that it is compared with; None for the baseline itself.
        values: Each measure by seed; repeats of a seed are averaged.
        means: The mean of each measure with its interval.
        differences: The difference from the baseline of each measure in `COMPARED`.
        speed_up: Its examples per second divided by the baseline's.
        to_auc: For each seed the seconds to the highest AUC that all settings reach.
        sooner: The baseline's seconds to that AUC divided by its own.
        against_random: Its AUC less that of skipping the same share of examples at random.
        faster: Whether it is faster by more than noise, if all settings are tested together.
        same_weights: Whether its final weights equal the baseline's, bit for bit, for every seed.
    """

    setting: Setting
    baseline: Setting | None
    values: Values
    means: dict[str, Interval]
    to_auc: dict[int, float]
    differences: dict[str, Interval]
    speed_up: Interval | None = None
    sooner: Interval | None = None
    against_random: Interval | None = None
    faster: bool = False
    same_weights: bool = False

    @property
    def label(self) -> str:
        """The label of the setting."""
        return self.setting.label

    def mean(self, name: str) -> float:
        """The mean of a measure; 0 if no run has it."""
        return self.means[name].mean if name in self.means else 0.0

    def to_json(self) -> dict[str, Any]:
        """All numbers as JSON."""

        def as_dict(number: Interval | None) -> dict[str, Any] | None:
            return None if number is None else number._asdict()

        to_auc = interval(list(self.to_auc.values())) if self.to_auc else None
        return {
            "setting": self.label,
            "baseline": self.baseline.label if self.baseline else None,
            "seeds": sorted(run.seed for run in self.setting.runs),
            "means": {name: as_dict(mean) for name, mean in self.means.items()},
            "differences": {name: as_dict(each) for name, each in self.differences.items()},
            "speed_up": as_dict(self.speed_up),
            "seconds_to_same_auc": as_dict(to_auc),
            "sooner": as_dict(self.sooner),
            "against_random": as_dict(self.against_random),
            "same_weights": self.same_weights,
            "runs": [str(run.folder) for run in self.setting.runs],
        }


def results_of(group: Group) -> list[Result]:
    """The result of each setting that has a run that has ended."""
    ended = [setting for setting in group.settings if setting.runs]
    common_auc = _common_auc(ended)
    times = {setting.label: _times(setting, common_auc) for setting in ended}
    values = {setting.label: _values(setting) for setting in ended}
    # Among many comparisons at 95 % some exceed noise by chance, so a claim must hold for all
    # comparisons together.
    level = 1 - (1 - LEVEL) / max(1, len(ended) - 1)
    results = []
    for setting in ended:
        mine, baseline = values[setting.label], group.baseline(setting)
        means = {name: interval(list(seeds.values())) for name, seeds in mine.items()}
        if baseline is None or baseline is setting:
            results.append(Result(setting, None, mine, means, times[setting.label], {}))
            continue
        theirs = values[baseline.label]
        rates = mine.get("inputs_per_second", {}), theirs.get("inputs_per_second", {})
        strict = ratio(*rates, level)
        pairs = {
            name: difference(mine[name], theirs[name])
            for name in COMPARED
            if name in mine and name in theirs
        }
        results.append(
            Result(
                setting,
                baseline,
                mine,
                means,
                times[setting.label],
                {name: pair for name, pair in pairs.items() if pair is not None},
                ratio(*rates),
                ratio(times[baseline.label], times[setting.label]),
                _against_random(setting, group, values),
                strict is not None and strict.seeds >= MIN_SEEDS and strict.verdict(1) == "higher",
                _same_weights(setting, baseline),
            )
        )
    return results


def _values(setting: Setting) -> Values:
    values: Values = {}
    for name, value_of in MEASURES.items():
        by_seed: dict[int, list[float]] = {}
        for run in setting.runs:
            value = value_of(run)
            if value is not None:
                by_seed.setdefault(run.seed, []).append(value)
        if by_seed:
            values[name] = {seed: sum(each) / len(each) for seed, each in by_seed.items()}
    return values


def _against_random(setting: Setting, group: Group, values: dict[str, Values]) -> Interval | None:
    """The difference from a line through the AUC of random skipping, at the same share skipped.

    For each seed the line begins with training on everything.
    """
    controls = group.random_controls(setting)
    mine = values[setting.label]
    if setting in controls or not controls or not any(mine.get("skip_share", {}).values()):
        return None
    all_trained = [
        each
        for each in group.settings
        if each.runs and not each.skips and each.strategy == controls[0].strategy
    ]
    random: dict[int, float] = {}
    for seed, share in mine["skip_share"].items():
        points = sorted(
            (values[each.label]["skip_share"][seed], values[each.label]["auc"][seed])
            for each in (*all_trained[:1], *controls)
            if seed in values[each.label].get("auc", {})
        )
        shares = [point[0] for point in points]
        if len(set(shares)) < 2 or not shares[0] <= share <= shares[-1] + _BEYOND:
            continue
        right = min(max(1, bisect_left(shares, share)), len(shares) - 1)
        random[seed] = _on_line(points[right - 1], points[right], share)
    return difference(mine.get("auc", {}), random)


def _on_line(first: tuple[float, float], second: tuple[float, float], x: float) -> float:
    if first[0] == second[0]:
        return first[1]
    return first[1] + (x - first[0]) / (second[0] - first[0]) * (second[1] - first[1])


def _common_auc(settings: Sequence[Setting]) -> dict[int, float]:
    """For each seed the lowest final AUC: all settings reach it."""
    lowest: dict[int, float] = {}
    for run in (run for setting in settings for run in setting.runs):
        auc = (run.summary or {}).get("auc")
        if auc is not None:
            lowest[run.seed] = min(auc, lowest.get(run.seed, auc))
    return lowest


def _times(setting: Setting, common_auc: dict[int, float]) -> dict[int, float]:
    """For each seed the seconds of training until the common AUC was first reached."""
    times = {
        run.seed: _crossing(run.auc_over_time, common_auc[run.seed])
        for run in setting.runs
        if run.seed in common_auc
    }
    return {seed: seconds for seed, seconds in times.items() if seconds is not None}


def _crossing(curve: list[tuple[float, float]], level: float) -> float | None:
    """The time at which a curve first reaches a level, on a straight line between its points."""
    for number, (seconds, auc) in enumerate(curve):
        if auc >= level:
            if not number:
                return seconds
            before = curve[number - 1]
            return _on_line((before[1], before[0]), (auc, seconds), level)
    return None


def _same_weights(mine: Setting, theirs: Setting) -> bool:
    digests = [
        {run.seed: (run.summary or {}).get("weights_digest") for run in setting.runs}
        for setting in (mine, theirs)
    ]
    seeds = digests[0].keys() & digests[1].keys()
    return bool(seeds) and all(digests[0][s] == digests[1][s] is not None for s in seeds)
