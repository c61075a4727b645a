"""Goals of skipping, judged by what the benchmark has found."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

from skipping_points import FULL, Points, control_at, ratio

# Where the teacher changes, of all inputs, and how many of them are trained on.
CHANGE, TRAINED = 0.5, 0.85
RARE, COMMON = "3 % positive, stationary", "25 % positive, stationary"


def say(points: Points) -> int:
    """Print a line for each goal; 1 if one is missed, else 2 if one could not be judged."""
    judged = [judge(points) for judge in _GOALS]
    for what, reached in judged:
        word = "not measured" if reached is None else "reached" if reached else "MISSED"
        print(f"- {what}: {word}")
    verdicts = [reached for _, reached in judged]
    return 1 if False in verdicts else 2 if None in verdicts else 0


Verdict = tuple[str, bool | None]


def label_aware(points: Points) -> Verdict:
    """Half the inputs at rare positives, for next to nothing."""
    goal = "thin or case-control: at most half the inputs at 3 % positives for at most 0.0005 AUC"
    found = points.get(("curves", RARE), {})
    tried = [
        one
        for (rule, _), one in found.items()
        if rule in ("thin", "case-control") and _mean(one.skipped) >= 0.5
    ]
    if not tried:
        return goal, None
    best = min(tried, key=lambda one: _mean(one.loss))
    loss, off = _mean(best.loss), abs(best.calibration - 1)
    told = (
        f"{goal}, calibration within 2 %: {best.rule} trains {1 - _mean(best.skipped):.1%} for "
        f"{loss:.5f} AUC, calibration {best.calibration:.4f}"
    )
    return told, loss <= 0.0005 and off <= 0.02


def least_left_to_learn(points: Points) -> Verdict:
    """Of what random skipping costs, value costs a part."""
    goal = "value at 30 % on saturated data: at most 0.6 of random's loss"
    found = points.get(("curves", COMMON), {})
    value = found.get(("value", 0.3))
    if value is None:
        return goal, None
    share = ratio(value.loss, control_at(found, "random", value.skipped))
    return (goal, None) if share is None else (f"{goal}: {share:.2f} of it", share <= 0.6)


def published(points: Points) -> Verdict:
    """What the published rule costs, whatever it is."""
    goal = "published beside random at the same share, stated whatever it is"
    told = []
    for (part, setting), found in points.items():
        for (rule, _), one in found.items():
            if part == "curves" and rule == "published" and _mean(one.skipped) > 0.02:
                share = ratio(one.loss, control_at(found, "random", one.skipped))
                if share is not None:
                    told.append(f"{share:.2f} at {_mean(one.skipped):.0%} ({setting})")
    return (f"{goal}: {'; '.join(told)}", True) if told else (goal, None)


def overhead(points: Points) -> Verdict:
    """What deciding costs."""
    goal = "classifier, snapshots and search: at most 3 % of training time at batch 2,048"
    all_of = [
        one for (part, _), found in points.items() if part == "overhead" for one in found.values()
    ]
    rules = [one for one in all_of if one.rule != FULL]
    if not rules:
        return goal, None
    worst = max(rules, key=lambda one: _mean(one.overhead))
    return f"{goal}: at most {_mean(worst.overhead):.2%} ({worst.rule})", _mean(
        worst.overhead
    ) <= 0.03


def guard(points: Points) -> Verdict:
    """After a sudden change, inputs are let back soon enough."""
    goal = (
        "guard after a sudden change: inputs back within 2 % of those after it, AUC within 0.001, "
        "no alarm before"
    )
    tried = [
        one
        for (part, _), found in points.items()
        if part == "sudden"
        for one in found.values()
        if one.rule != FULL and "no guard" not in one.rule
    ]
    if not tried:
        return goal, None
    told, reached = [], True
    for one in tried:
        total = next(iter(one.runs.values()))["inputs_total"]
        change = CHANGE * total / TRAINED
        found = [n for n in one.back_after(change).values() if n is not None]
        late = max(found, default=math.inf) / (total - change)
        soon = len(found) == len(one.runs) and late <= 0.02
        loss, false = _mean(one.loss), one.alarms_before(change)
        reached &= soon and loss <= 0.001 and not false
        when = f"{late:.1%}" if math.isfinite(late) else "never"
        told.append(f"{one.rule} {when}, {loss:.5f}, {false} before")
    return f"{goal}: {'; '.join(told)}", reached


def _mean(values: dict[int, float]) -> float:
    return statistics.fmean(values.values())


_GOALS: tuple[Callable[[Points], Verdict], ...] = (
    label_aware,
    least_left_to_learn,
    published,
    guard,
    overhead,
)
