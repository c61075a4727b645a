"""What was trained and what was skipped: counted step by step, decision by decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from slipstream.skip.heard import Group, sums_by_step
from slipstream.skip.outcome import percents

_ALIKE = 0.02  # how far the share got may be from the one asked for without a reason


class Tally:
    """Counts inputs and positives, trained and skipped, for each decision that was taken."""

    def __init__(self) -> None:
        self._each: list[dict[str, Any]] = [_fresh({"decision": 0}, 0)]

    def decided(self, about: Mapping[str, Any], position: int) -> None:
        """A decision was taken; inputs come by it later."""
        self._each.append(_fresh(about, position))

    def add(self, group: Group) -> None:
        """Count some steps."""
        one, logits = self._each[group.decision], torch.from_numpy(group.logits)
        labels = torch.from_numpy(group.labels).to(logits)
        losses = binary_cross_entropy_with_logits(logits, labels, reduction="none").numpy()
        for counts, loss in zip(group.counts, sums_by_step(losses, group.ends), strict=True):
            for name, count in counts._asdict().items():
                one[name] += count
            one["loss"] += loss
        for plan in (heard.plan for heard in group.steps):
            for rows in plan.groups:
                lists = sum(len(lists.slots) for lists in rows.lists.values())
                one["accesses"] += len(rows.slots) * plan.n_valid + lists
                one["updates"] += 0 if rows.touched is None else len(rows.touched.sources)

    def state_dict(self) -> list[dict[str, Any]]:
        """All counts, as JSON."""
        return [dict(one) for one in self._each]

    def load_state_dict(self, state: list[dict[str, Any]]) -> None:
        """Go on counting."""
        self._each = [dict(one) for one in state]

    def total(self, name: str) -> float:
        """A count over all decisions."""
        return sum(one[name] for one in self._each)

    def _since(self, name: str) -> float:
        """A count over all decisions but the one to train all that holds at first."""
        return sum(one[name] for one in self._each[1:])

    @property
    def owed(self) -> float:
        """Inputs that should have been skipped so far and were not; below 0, the other way."""
        return sum(
            one.get("asked", 0.0) * (one["trained"] + one["skipped"]) - one["skipped"]
            for one in self._each
        )

    @property
    def why_nothing(self) -> str:
        """Why nothing was skipped, as far as decisions say."""
        decided = [one for one in self._each if "asked" in one]
        if not decided:
            return "no decision was taken"
        if not any(one["trained"] for one in decided):
            return "decisions hold from skip.lag batches on, and the run ended before"
        return _why(decided) or ("" if any(one["asked"] for one in decided) else "0 % asked for")

    def asked(self, *, sampled: bool) -> str:
        """The share got beside the one asked for; and if they are two points apart, why.

        Args:
            sampled: Whether what was asked for is a share of the sample, not of all inputs.
        """
        judged = [one for one in self._each if one.get("asked") and _inputs(one)]
        inputs = sum(map(_inputs, judged))
        if not inputs:
            return ""
        asked = sum(one["asked"] * _inputs(one) for one in judged) / inputs
        reached = (one["reached"] * _inputs(one) if sampled else one["skipped"] for one in judged)
        got = sum(reached) / inputs
        said = f"{percents(got)} of {'the sample' if sampled else f'the {inputs:,} judged'}"
        if abs(got - asked) <= _ALIKE:
            return f"{said}, {percents(asked)} asked for"
        why = _why(judged) or "what came was not as the sample before it"
        return f"{said}, where {percents(asked)} were asked for: {why}"

    def _frozen(self) -> float:
        """The share of row updates that were left out since the first decision."""
        accesses, updates = self._since("accesses"), self._since("updates")
        return 1 - updates / accesses if accesses else 0.0

    def summary(self) -> dict[str, Any]:
        """Shares, label rates and losses of the whole run, and of each decision."""
        return {
            "label_rate_trained": _ratio(self.total("trained_positive"), self.total("trained")),
            "label_rate_skipped": _ratio(self.total("skipped_positive"), self.total("skipped")),
            # Those of skipped inputs are from then on too, and losses fall along a run.
            "loss_trained": _ratio(self._since("loss"), self._since("trained")),
            "row_updates_frozen": self._frozen(),
            "decisions": [
                {
                    **{key: one[key] for key in _ABOUT if key in one},
                    "position": one["position"],
                    "inputs": _inputs(one),
                    "share": _ratio(one["skipped"], _inputs(one)),
                }
                for one in self._each
            ],
        }


_ABOUT = ("decision", "asked", "wanted", "reached", "of_inputs", "threshold", "why")


def _inputs(one: Mapping[str, Any]) -> int:
    """Inputs that a decision judged."""
    return int(one["trained"] + one["skipped"])


def _why(decisions: Sequence[Mapping[str, Any]]) -> str:
    """Why a share was not the wanted one: the reason of the decision that judged most inputs."""
    reasons = [one for one in decisions if one["why"] and _inputs(one)]
    return str(max(reasons, key=_inputs)["why"]) if reasons else ""


def _fresh(about: Mapping[str, Any], position: int) -> dict[str, Any]:
    counts = dict.fromkeys(
        (
            "trained",
            "skipped",
            "trained_positive",
            "skipped_positive",
            "loss",
            "accesses",
            "updates",
        ),
        0,
    )
    return {**about, "position": position, **counts}


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
