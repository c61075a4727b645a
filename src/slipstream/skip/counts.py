"""Counts of trained and skipped examples, for each decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slipstream.arrays import Array
from slipstream.skip.outcome import percent
from slipstream.skip.steps import StepGroup

_CLOSE = 0.02  # a share that is closer to the target needs no reason
_COUNTS = (
    *("trained", "skipped", "trained_positive", "skipped_positive"),
    *("loss", "accesses", "updates"),
)
_ABOUT = ("decision", "target", "wanted", "reached", "of_sample", "threshold", "why")


class SkipCounts:
    """Counts examples and positives, trained and skipped, for each decision that was taken."""

    def __init__(self) -> None:
        self._decisions: list[dict[str, Any]] = []
        self.add_decision({"decision": 0}, 0)

    def add_decision(self, about: Mapping[str, Any], position: int) -> None:
        """Add a decision; the examples that it judges come later."""
        self._decisions.append({**about, "position": position, **dict.fromkeys(_COUNTS, 0)})

    def add(self, group: StepGroup, skipped_labels: Array) -> None:
        """Count the examples of some steps."""
        counts = self._decisions[group.decision]
        counts["trained"] += len(group.labels)
        counts["trained_positive"] += int((group.labels > 0).sum())
        counts["skipped"] += len(skipped_labels)
        counts["skipped_positive"] += int((skipped_labels > 0).sum())
        for loss in group.losses():
            counts["loss"] += loss
        for plan in (step.plan for step in group.steps):
            for rows in plan.groups:
                lists = sum(len(column.slots) for column in rows.lists.values())
                counts["accesses"] += len(rows.slots) * plan.n_valid + lists
                counts["updates"] += 0 if rows.touched is None else len(rows.touched.sources)

    def state_dict(self) -> list[dict[str, Any]]:
        """All counts, as JSON."""
        return [dict(counts) for counts in self._decisions]

    def load_state_dict(self, state: list[dict[str, Any]]) -> None:
        """Continue with saved counts."""
        self._decisions = [dict(counts) for counts in state]

    def _total(self, name: str, first: int = 0) -> float:
        return sum(counts[name] for counts in self._decisions[first:])

    @property
    def owed(self) -> float:
        """Examples that should have been skipped so far and were not; negative if too many were."""
        return sum(
            counts.get("target", 0.0) * _judged(counts) - counts["skipped"]
            for counts in self._decisions
        )

    @property
    def why_nothing(self) -> str:
        """The reason why nothing was skipped, as far as decisions have one."""
        decisions = self._decisions[1:]
        if not decisions:
            return "no decision was taken"
        if not any(counts["trained"] for counts in decisions):
            return "decisions hold from skip.lag batches on, and the run ended before"
        targets = any(counts["target"] for counts in decisions)
        return _reason(decisions) or ("" if targets else "the target is 0 %")

    def share_and_target(self, *, of_sample: bool) -> str:
        """The share beside the target; and the reason, if they are two points apart.

        Args:
            of_sample: Whether the target is a share of the sample, not of all examples.
        """
        decisions = [each for each in self._decisions if each.get("target") and _judged(each)]
        judged = sum(map(_judged, decisions))
        if not judged:
            return ""
        target = sum(each["target"] * _judged(each) for each in decisions) / judged
        reached = [each["reached"] * _judged(each) for each in decisions]
        share = sum(reached if of_sample else [each["skipped"] for each in decisions]) / judged
        of = f"{percent(share)} of {'the sample' if of_sample else f'the {judged:,} judged'}"
        if abs(share - target) <= _CLOSE:
            return f"{of}, the target is {percent(target)}"
        why = _reason(decisions) or "the examples were unlike the sample before them"
        return f"{of}, where the target is {percent(target)}: {why}"

    def summary(self) -> dict[str, Any]:
        """Shares, label rates and losses of the whole run, and of each decision."""
        accesses, updates = self._total("accesses", 1), self._total("updates", 1)
        return {
            "label_rate_trained": _ratio(self._total("trained_positive"), self._total("trained")),
            "label_rate_skipped": _ratio(self._total("skipped_positive"), self._total("skipped")),
            # The loss of skipped examples is known from the first decision on, and losses fall.
            "loss_trained": _ratio(self._total("loss", 1), self._total("trained", 1)),
            "row_updates_frozen": 1 - updates / accesses if accesses else 0.0,
            "decisions": [
                {
                    **{key: counts[key] for key in _ABOUT if key in counts},
                    "position": counts["position"],
                    "inputs": _judged(counts),
                    "share": _ratio(counts["skipped"], _judged(counts)),
                }
                for counts in self._decisions
            ],
        }


def _judged(counts: Mapping[str, Any]) -> int:
    """Examples that a decision judged."""
    return int(counts["trained"] + counts["skipped"])


def _reason(decisions: Sequence[Mapping[str, Any]]) -> str:
    """The reason of the decision that judged most examples, of those that have one."""
    reasons = [counts for counts in decisions if counts["why"] and _judged(counts)]
    return str(max(reasons, key=_judged)["why"]) if reasons else ""


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
