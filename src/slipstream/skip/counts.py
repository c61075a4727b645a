"""Counts of trained and skipped examples for each decision, and the sentence at a run's end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from slipstream.arrays import Array
from slipstream.pipeline.engine import StepResult
from slipstream.skip.control import log_loss

_CLOSE = 0.02  # a share that is closer to the target needs no reason
_COUNTS = (
    *("trained", "skipped", "trained_positive", "skipped_positive"),
    *("loss", "accesses", "updates"),
)


class SkipCounts:
    """Counts examples and positives, trained and skipped, for each decision that was taken."""

    def __init__(self) -> None:
        self._decisions: list[dict[str, Any]] = []
        self.add_decision({"decision": 0}, 0)

    def add_decision(self, about: Mapping[str, Any], position: int) -> None:
        """Add a decision; the examples that it judges come later."""
        self._decisions.append({**about, "position": position, **dict.fromkeys(_COUNTS, 0)})

    def add(self, results: Sequence[StepResult], skipped_labels: Array) -> None:
        """Count the examples of steps that had the same decision."""
        plans = [result.plan for result in results]
        counts = self._decisions[plans[0].decision]
        labels = torch.cat([plan.labels[: plan.n_valid] for plan in plans]).numpy()
        counts["trained"] += len(labels)
        counts["trained_positive"] += int((labels > 0).sum())
        counts["skipped"] += len(skipped_labels)
        counts["skipped_positive"] += int((skipped_labels > 0).sum())
        logits = [result.logits[: result.plan.n_valid].double() for result in results]
        losses = log_loss(torch.cat(logits).numpy(), labels)
        sizes = [plan.n_valid for plan in plans if plan.n_valid]
        # Summed step by step: the sum does not depend on how many steps come together.
        for loss in np.add.reduceat(losses, np.cumsum([0, *sizes[:-1]])) if sizes else ():
            counts["loss"] += float(loss)
        for plan in plans:
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

    @property
    def owed(self) -> float:
        """Examples that should have been skipped so far and were not; negative if too many were."""
        return sum(
            counts.get("target", 0.0) * _judged(counts) - counts["skipped"]
            for counts in self._decisions
        )

    def summary(self) -> dict[str, Any]:
        """Shares, label rates and losses of the whole run, and of each decision."""
        # The loss of skipped examples is known from the first decision on, and losses fall.
        total, decided = self._totals(0), self._totals(1)
        left_out = 1 - decided["updates"] / decided["accesses"] if decided["accesses"] else 0.0
        return {
            "label_rate_trained": _ratio(total["trained_positive"], total["trained"]),
            "label_rate_skipped": _ratio(total["skipped_positive"], total["skipped"]),
            "loss_trained": _ratio(decided["loss"], decided["trained"]),
            "row_updates_frozen": left_out,
            "decisions": [
                {
                    **{key: value for key, value in counts.items() if key not in _COUNTS},
                    "inputs": _judged(counts),
                    "share": _ratio(counts["skipped"], _judged(counts)),
                }
                for counts in self._decisions
            ],
        }

    def _totals(self, first: int) -> dict[str, float]:
        decisions = self._decisions[first:]
        return {name: sum(counts[name] for counts in decisions) for name in _COUNTS}

    def why_nothing(self) -> str:
        """The reason why nothing was skipped, as far as decisions have one."""
        decisions = self._decisions[1:]
        if not any(counts["trained"] for counts in decisions):
            return "the run ended before a decision took effect, skip.lag batches after it"
        targets = any(counts["target"] for counts in decisions)
        return _reason(decisions) or ("" if targets else "the target is 0 %")

    def share_and_target(self, *, of_sample: bool) -> str:
        """The share of examples, or of sampled ones, beside the target; and why they differ."""
        decisions = [each for each in self._decisions if each.get("target") and _judged(each)]
        judged = sum(map(_judged, decisions))
        if not judged:
            return ""
        target = sum(each["target"] * _judged(each) for each in decisions) / judged
        reached = [each["reached"] * _judged(each) for each in decisions]
        in_sample = sum(reached) / judged
        share = in_sample if of_sample else sum(each["skipped"] for each in decisions) / judged
        where = "of the sampled examples" if of_sample else f"of {judged:,} judged examples"
        text = f"{_percent(share)} {where}, target {_percent(target)}"
        if abs(share - target) <= _CLOSE:
            return text
        why = _reason(decisions)
        if not why and abs(in_sample - target) <= _CLOSE:
            why = "the sampled examples differ from the others"
        return f"{text}; reason: {why}" if why else text


def sentence(rule: str, summary: Mapping[str, Any], because: str) -> str:
    """The share that was skipped, the time that it saved, and losses, from the run's summary.

    `because` is the reason, if nothing was skipped; else the share beside the target.
    """
    because = f" ({because})" if because else ""
    seconds, train_seconds = summary["overhead_seconds"], summary["train_seconds"]
    if not summary["inputs_skipped"]:
        if frozen := summary.get("row_updates_frozen"):
            return (
                f"{rule}: no example was skipped, and {_percent(frozen)} of row updates left out "
                f"after the warm-up; choosing them took {seconds:.1f} s."
            )
        return f"{rule}: nothing was skipped{because}; judging took {seconds:.1f} s."
    per_example = (train_seconds - seconds) / max(1, summary["inputs_trained"])
    saved = per_example * summary["inputs_skipped"] - seconds
    verb, more = ("saved", "") if saved >= 0 else ("took", " more than it saved")
    text = (
        f"{rule}: {_percent(summary['skip_share'])} of examples skipped{because}, which {verb} "
        f"about {abs(saved):.1f} s{more} beside {train_seconds:.1f} s of training."
    )
    skipped, trained = summary.get("loss_skipped"), summary.get("loss_trained")
    if skipped is not None and trained is not None:
        text += f" Mean loss: {skipped:.4f} of skipped examples, {trained:.4f} of trained ones."
    return f"{text} Only runs without skipping, and with `random`, show the cost."


def _judged(counts: Mapping[str, Any]) -> int:
    """Examples that a decision judged."""
    return int(counts["trained"] + counts["skipped"])


def _reason(decisions: Sequence[Mapping[str, Any]]) -> str:
    """The reason of the decision that judged most examples, of those that have one."""
    reasons = [counts for counts in decisions if counts["why"] and _judged(counts)]
    return str(max(reasons, key=_judged)["why"]) if reasons else ""


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
