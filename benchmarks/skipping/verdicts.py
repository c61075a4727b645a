"""Goals of skipping, judged by what the benchmark has found.

A goal about a mean is reached where the whole 95 % interval is on its side, missed where the whole
interval is on the other, and undecided where the interval holds the goal.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Literal

from benchmarks.skipping.points import FULL, Point, Points, control_at, ratio

from slipstream.analyze.report.statistics import Interval, interval

RARE, COMMON = "3 % positive, stationary", "25 % positive, stationary"
Word = Literal["reached", "MISSED", "undecided", "not measured"]
Verdict = tuple[str, Word]

LEGEND = (
    "reached: the whole 95 % interval is on the goal's side (times: every seed is); "
    "MISSED: the whole interval, or a seed, is on the other; undecided: the interval holds the "
    "goal, or there is one seed only."
)


def say(points: Points) -> int:
    """Print a line for each goal; 1 if one is missed, else 2 if one could not be judged."""
    print(f"{LEGEND}\n")
    judged = [judge(points) for judge in _GOALS]
    for what, word in judged:
        print(f"- {what}: {word}")
    words = {word for _, word in judged}
    return 1 if "MISSED" in words else 2 if words != {"reached"} else 0


def label_aware(points: Points) -> Verdict:
    """Half the inputs at rare positives, for next to nothing."""
    goal = (
        "thin or case-control: at most half the inputs at 3 % positives for at most 0.0005 AUC, "
        "calibration within 2 %"
    )
    found = points.get(("curves", RARE), {})
    tried = [
        one
        for (rule, _), one in found.items()
        if rule in ("thin", "case-control") and _mean(one.skipped) >= 0.5
    ]
    if not tried:
        return goal, "not measured"
    best = min(tried, key=lambda one: _mean(one.loss))
    loss = interval(list(best.loss.values()))
    told = (
        f"{goal}: {best.rule} trains {1 - _mean(best.skipped):.1%} for {_shown(loss, 5)} AUC, "
        f"calibration {best.calibration:.4f}"
    )
    return told, "MISSED" if abs(best.calibration - 1) > 0.02 else _at_most(loss, 0.0005)


def least_left_to_learn(points: Points) -> Verdict:
    """Of what random skipping costs, value costs a part."""
    goal = "value at 30 % on saturated data: at most 0.6 of random's loss"
    found = points.get(("curves", COMMON), {})
    value = found.get(("value", 0.3))
    part = None if value is None else ratio(value.loss, _random(found, value))
    if part is None:
        return goal, "not measured"
    return f"{goal}: {_shown(part, 2)} of it", _at_most(part, 0.6)


def published(points: Points) -> Verdict:
    """What the published rule costs, whatever it is."""
    goal = "published beside random at the same share, stated whatever it is"
    told = []
    for (part, setting), found in points.items():
        for (rule, _), one in found.items():
            if part in ("curves", "method") and rule == "published" and _mean(one.skipped) > 0.02:
                of_random = ratio(one.loss, _random(found, one))
                if of_random is not None:
                    share = f"{_mean(one.skipped):.0%}"
                    told.append(f"{_shown(of_random, 2)} of its loss at {share} ({setting})")
    return (f"{goal}: {'; '.join(told)}", "reached") if told else (goal, "not measured")


def spread(points: Points) -> Verdict:
    """How many losses are known well enough."""
    goal = "spread: every loss known to a tenth of itself, or surely under 0.0002 AUC"
    tried = [
        (setting, one)
        for (part, setting), found in points.items()
        if part in ("curves", "method")
        for one in found.values()
        if one.rule != FULL and not one.nothing
    ]
    if not tried:
        return goal, "not measured"
    left: dict[str, list[str]] = {}
    for setting, one in tried:
        if not one.standing.settled:
            left.setdefault(setting, []).append(f"{one.rule} {one.share:.0%}")
    open_ones = sum(map(len, left.values()))
    told = f"{goal}: {len(tried) - open_ones} of {len(tried)} are"
    names = "; ".join(f"{setting}: {', '.join(rules)}" for setting, rules in left.items())
    return (f"{told}; not: {names}", "MISSED") if left else (told, "reached")


def overhead(points: Points) -> Verdict:
    """What deciding costs."""
    goal = "classifier, snapshots and search: at most 3 % of training time at batch 2,048"
    all_of = [
        one for (part, _), found in points.items() if part == "overhead" for one in found.values()
    ]
    rules = [one for one in all_of if one.rule != FULL]
    if not rules:
        return goal, "not measured"
    worst = max(rules, key=lambda one: _mean(one.overhead))
    most = _mean(worst.overhead)
    told = f"{goal}: at most {most:.2%} on average over seeds ({worst.rule})"
    return told, "reached" if most <= 0.03 else "MISSED"


def _random(found: dict[tuple[str, float], Point], one: Point) -> dict[int, float]:
    return control_at(found, "random", one.skipped)


def _at_most(found: Interval, goal: float) -> Word:
    if found.low is None or found.high is None:
        return "undecided"
    return "reached" if found.high <= goal else "MISSED" if found.low > goal else "undecided"


def _shown(one: Interval, digits: int) -> str:
    half = "" if one.high is None else f" ± {one.high - one.mean:.{digits}f}"
    return f"{one.mean:.{digits}f}{half}"


def _mean(values: dict[int, float]) -> float:
    return statistics.fmean(values.values())


_GOALS: tuple[Callable[[Points], Verdict], ...] = (
    label_aware,
    least_left_to_learn,
    published,
    spread,
    overhead,
)
