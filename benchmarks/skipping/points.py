"""Runs of the benchmark of skipping put together: each rule and share beside full training."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from benchmarks.skipping.ledger import Outcome, Task
from benchmarks.skipping.settled import Standing, standing

from slipstream.analyze.report.statistics import Interval, interval

FULL = "none"
CONTROL = "control"
BySeed = dict[int, float]


@dataclass(frozen=True)
class Point:
    """A rule at a share, over the seeds that full training has too.

    Args:
        rule: Its name, and what else tells it from others.
        share: The share of inputs that was asked for.
        runs: What came out, by seed.
        full: What came out of full training, by seed.
    """

    rule: str
    share: float
    runs: Mapping[int, Outcome]
    full: Mapping[int, Outcome]

    @property
    def loss(self) -> BySeed:
        """AUC of full training less that of the rule, seed by seed."""
        return {seed: self.full[seed]["auc"] - one["auc"] for seed, one in self.runs.items()}

    @property
    def nothing(self) -> bool:
        """Whether neither inputs nor row updates were left out: there is no loss to know."""
        return not any(self.skipped.values())

    @property
    def standing(self) -> Standing:
        """How well the loss is known."""
        return standing(self.loss)

    @property
    def skipped(self) -> BySeed:
        """The share of inputs that was skipped; of a rule that freezes, of row updates."""
        return {seed: saved_share(one) for seed, one in self.runs.items()}

    @property
    def skips(self) -> bool:
        """Whether inputs were skipped at all."""
        return any(one["skip_share"] for one in self.runs.values())

    @property
    def calibration(self) -> float:
        """Mean prediction over the share of positives."""
        return statistics.fmean(one["calibration"] for one in self.runs.values())

    @property
    def time_saved(self) -> float:
        """The share of full training's time on a core that was saved: the median over seeds."""
        return 1 - statistics.median(
            one["core_seconds"] / self.full[seed]["core_seconds"] for seed, one in self.runs.items()
        )

    @property
    def overhead(self) -> BySeed:
        """What the classifier, snapshots and search took of the time of training."""
        return self._spent(lambda what: what != CONTROL)

    @property
    def control(self) -> BySeed:
        """What the control sample took of it."""
        return self._spent(lambda what: what == CONTROL)

    def _spent(self, counts: Callable[[str], bool]) -> BySeed:
        made = {}
        for seed, one in self.runs.items():
            seconds = (one["skipping"] or {}).get("overhead_seconds", {})
            spent = sum(taken for what, taken in seconds.items() if counts(what))
            made[seed] = spent / one["train_seconds"]
        return made


Found = dict[tuple[str, float], Point]
Points = dict[tuple[str, str], Found]


def saved_share(outcome: Outcome) -> float:
    """The share of inputs that was skipped, or else of row updates that was left out."""
    frozen = (outcome["skipping"] or {}).get("row_updates_frozen")
    return float(outcome["skip_share"] or frozen or 0.0)


def points_of(made: Iterable[tuple[Task, Outcome]]) -> Points:
    """The points of each part and setting, full training among them."""
    by_setting: dict[tuple[str, str], dict[tuple[str, float], dict[int, Outcome]]] = {}
    for task, outcome in made:
        found = by_setting.setdefault((task["part"], task["setting"]), {})
        found.setdefault((task["rule"], task["share"]), {})[task["seed"]] = outcome
    points: Points = {}
    for where, found in by_setting.items():
        full = next((runs for (rule, _), runs in found.items() if rule == FULL), {})
        for (rule, share), runs in found.items():
            paired = {seed: one for seed, one in runs.items() if seed in full}
            if paired:
                points.setdefault(where, {})[rule, share] = Point(rule, share, paired, full)
    return points


def control_at(found: Found, control: str, skipped: BySeed) -> BySeed:
    """What a control loses at the shares that were skipped, seed by seed.

    On straight lines between the shares that were measured, from nothing at nothing; seeds for
    which it skipped less than that are left out.
    """
    made = {}
    for seed, share in skipped.items():
        curve = sorted(
            (one.skipped[seed], one.loss[seed])
            for (rule, _), one in found.items()
            if rule == control and seed in one.runs
        )
        for (a, x), (b, y) in zip([(0.0, 0.0), *curve], curve, strict=False):
            if a <= share <= b and b > a:
                made[seed] = x + (y - x) * (share - a) / (b - a)
                break
            # Asked for the same, a control skips the same but for its draws.
            if (b, y) == curve[-1] and share - b < 0.01:
                made[seed] = y * share / b if b else 0.0
    return made


def ratio(mine: BySeed, theirs: BySeed) -> Interval | None:
    """The mean of some values over that of others, over the seeds that both have.

    The interval is that of what is left of mine after the same part of theirs, seed by seed: the
    luck that both share does not widen it.
    """
    both = [seed for seed in mine if seed in theirs]
    below = sum(theirs[seed] for seed in both)
    if not both or below <= 0:
        return None
    part = sum(mine[seed] for seed in both) / below
    left = interval([mine[seed] - part * theirs[seed] for seed in both])
    if left.low is None or left.high is None:
        return Interval(part, None, None, len(both))
    half = (left.high - left.low) / 2 * len(both) / below
    return Interval(part, part - half, part + half, len(both))
