"""What a variant reached, and how far that is from its baseline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slipstream.report.runs import RunRecord
from slipstream.report.statistics import LEVEL, Interval, difference, interval, ratio
from slipstream.report.variants import Setting, Variant

Value = Callable[[RunRecord], "float | None"]


def _summary(*path: str) -> Value:
    def get(run: RunRecord) -> float | None:
        value: Any = run.summary
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return None if value is None else float(value)

    return get


def _bytes_moved(run: RunRecord) -> float | None:
    each = ((run.summary or {}).get("carried") or {}).get("per_input")
    return float(each["bytes_in"] + each["bytes_out"]) if each else None


MEASURES: dict[str, Value] = {
    "auc": _summary("auc"),
    "logloss": _summary("logloss"),
    "normalized_entropy": _summary("normalized_entropy"),
    "calibration": _summary("calibration"),
    "inputs_per_second": lambda run: run.inputs_per_second,
    "train_seconds": _summary("train_seconds"),
    "start_seconds": lambda run: run.start_seconds,
    "skip_share": _summary("skip_share"),
    "hot_access_share": _summary("hot_access_share"),
    "bytes_moved_per_input": _bytes_moved,
    "steps_aside": _summary("carried", "aside"),
    "host_bytes": _summary("peak_memory_bytes", "host"),
    "device_bytes": _summary("peak_memory_bytes", "device"),
}
COMPARED = ("auc", "logloss", "normalized_entropy")
"""Measures whose differences from the baseline are taken."""
SPEED, SOONER = "speed_up", "sooner"
FEWEST = 3
"""Seeds without which no claim is made."""


@dataclass(frozen=True)
class Result:
    """A variant with everything that is said of it.

    Args:
        variant: The variant.
        baseline: What it is compared with; None where it is the baseline itself.
        values: For each measure the value of each seed; repeats of a seed are averaged.
        means: For each measure its mean and interval.
        differences: For each compared measure how much larger it is than the baseline's.
        speed_up: How many times as many inputs it goes through in a second as the baseline.
        to_auc: Seconds, for each seed, to the AUC that every variant reaches with that seed.
        sooner: How many times as soon as the baseline it reaches that.
        faster: Whether it is faster by more than noise, also if one asks that of every variant.
        same_weights: Whether it ends with the weights of its baseline, to the bit, on every seed.
    """

    variant: Variant
    baseline: Variant | None
    values: dict[str, dict[int, float]]
    means: dict[str, Interval]
    differences: dict[str, Interval]
    speed_up: Interval | None
    to_auc: dict[int, float]
    sooner: Interval | None
    faster: bool
    same_weights: bool

    @property
    def label(self) -> str:
        """What to call the variant."""
        return self.variant.label

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON."""

        def told(one: Interval | None) -> dict[str, Any] | None:
            return None if one is None else one._asdict()

        return {
            "variant": self.label,
            "baseline": self.baseline.label if self.baseline else None,
            "seeds": sorted(run.seed for run in self.variant.runs),
            "means": {name: told(one) for name, one in self.means.items()},
            "differences": {name: told(one) for name, one in self.differences.items()},
            SPEED: told(self.speed_up),
            "seconds_to_same_auc": told(interval(list(self.to_auc.values())))
            if self.to_auc
            else None,
            SOONER: told(self.sooner),
            "same_weights": self.same_weights,
            "runs": [str(run.folder) for run in self.variant.runs],
        }


def results_of(setting: Setting) -> list[Result]:
    """The result of each variant that has a run at its end."""
    ended = [one for one in setting.variants if one.runs]
    reached = _reached(ended)
    times = {id(one): _times(one, reached) for one in ended}
    values = {id(one): _values(one) for one in ended}
    # Of many comparisons at 95 % one is soon apart by chance: a claim is held to all of them.
    level = 1 - (1 - LEVEL) / max(1, len(ended) - 1)
    made = []
    for one in ended:
        mine, base = values[id(one)], setting.baseline(one)
        means = {name: interval(list(seeds.values())) for name, seeds in mine.items()}
        if base is None or base is one:
            made.append(
                Result(one, None, mine, means, {}, None, times[id(one)], None, False, False)
            )
            continue
        theirs = values[id(base)]
        rates = mine.get("inputs_per_second", {}), theirs.get("inputs_per_second", {})
        strict = ratio(*rates, level)
        taken = {n: difference(mine[n], theirs[n]) for n in COMPARED if n in mine and n in theirs}
        made.append(
            Result(
                one,
                base,
                mine,
                means,
                {name: found for name, found in taken.items() if found is not None},
                ratio(*rates),
                times[id(one)],
                ratio(times[id(base)], times[id(one)]),
                strict is not None and strict.seeds >= FEWEST and strict.verdict(1.0) == "higher",
                _same_weights(one, base),
            )
        )
    return made


def _values(variant: Variant) -> dict[str, dict[int, float]]:
    made: dict[str, dict[int, float]] = {}
    for name, value in MEASURES.items():
        seeds: dict[int, list[float]] = {}
        for run in variant.runs:
            if (found := value(run)) is not None:
                seeds.setdefault(run.seed, []).append(found)
        if seeds:
            made[name] = {seed: sum(all_) / len(all_) for seed, all_ in seeds.items()}
    return made


def _reached(variants: list[Variant]) -> dict[int, float]:
    """For each seed the AUC that all runs of it end with or above."""
    lowest: dict[int, float] = {}
    for run in (run for one in variants for run in one.runs):
        auc = (run.summary or {}).get("auc")
        if auc is not None:
            lowest[run.seed] = min(auc, lowest.get(run.seed, auc))
    return lowest


def _times(variant: Variant, reached: dict[int, float]) -> dict[int, float]:
    """For each seed the seconds of training until its AUC was first as high as that."""
    made = {}
    for run in variant.runs:
        seconds = _crossing(run.auc_over_time, reached.get(run.seed, 2.0))
        if seconds is not None:
            made[run.seed] = seconds
    return made


def _crossing(curve: list[tuple[float, float]], level: float) -> float | None:
    """When a curve first reaches a level, on a straight line between two of its points."""
    before: tuple[float, float] | None = None
    for seconds, auc in curve:
        if auc >= level:
            if before is None or auc == before[1]:
                return seconds
            share = (level - before[1]) / (auc - before[1])
            return before[0] + share * (seconds - before[0])
        before = (seconds, auc)
    return None


def _same_weights(mine: Variant, theirs: Variant) -> bool:
    digests = [
        {run.seed: (run.summary or {}).get("weights_digest") for run in one.runs}
        for one in (mine, theirs)
    ]
    seeds = digests[0].keys() & digests[1].keys()
    return bool(seeds) and all(digests[0][s] == digests[1][s] is not None for s in seeds)
