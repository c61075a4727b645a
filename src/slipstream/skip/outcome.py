"""What skipping came to: one honest sentence, with the learning curve as its yardstick."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from slipstream.t_distribution import t_quantile


class Yardstick(NamedTuple):
    """What skipping at random would have cost, by the learning curve.

    Args:
        auc: The AUC it would have cost.
        half: Half of its 95 % interval, by Student's t; None from fewer than four points.
    """

    auc: float
    half: float | None


def yardstick(curve: Sequence[Mapping[str, Any]], share: float) -> Yardstick | None:
    """What it would have cost to train on so much less, from how the AUC grew with inputs.

    A line through AUC against the log of the inputs trained, from half of the run on.

    Args:
        curve: Points with `auc` and `inputs_trained`.
        share: The share of inputs left out.

    Example:
        >>> curve = [{"auc": 0.7 + 0.01 * math.log(n), "inputs_trained": n} for n in (5, 6, 8, 10)]
        >>> round(yardstick(curve, 0.2).auc, 5)
        0.00223
    """
    points = [
        (math.log(one["inputs_trained"]), one["auc"])
        for one in curve
        if one.get("auc") is not None and one.get("inputs_trained")
    ]
    points = sorted(set(points))
    if len(points) < 3 or not 0 < share < 1:
        return None
    x, y = np.array(points).T
    x = x - x.mean()
    spread = float(x @ x)
    if spread <= 0:
        return None
    slope = float(x @ y) / spread
    left = y - y.mean() - slope * x
    scale = math.log(1 / (1 - share))
    half = None
    if len(points) > 3:
        free = len(points) - 2
        error = scale * math.sqrt(float(left @ left) / free / spread)
        half = t_quantile(0.975, free) * error
    return Yardstick(scale * slope, half)


def sentence(
    rule: str,
    summary: Mapping[str, Any],
    overhead: float,
    cost: Yardstick | None,
    how: str = "",
    why: str = "",
    asked: str = "",
    losses: tuple[float | None, float | None, int] = (None, None, 0),
) -> str:
    """What was skipped, what that saved, and what is known of its cost.

    Args:
        rule: The rule's name.
        summary: The run's, with what was counted of skipping.
        overhead: Seconds that skipping itself took.
        cost: What random skipping would have cost.
        how: What else to say of the rule.
        why: If nothing was skipped: why.
        asked: The share that was asked for, beside the one got.
        losses: The mean loss of skipped examples that were scored, that of trained ones, and how
            many were scored.
    """
    name = f"{rule}, {how}" if how else rule
    if not summary["inputs_skipped"]:
        if frozen := summary.get("row_updates_frozen"):
            return (
                f"{name}: no input was skipped, and {percents(frozen)} of row updates left out "
                f"after the warm-up; choosing them took {overhead:.1f} s. What it cost shows only "
                "beside runs without it."
            )
        because = f" ({why})" if why else ""
        return f"{name}: nothing was skipped{because}; looking for it took {overhead:.1f} s."
    beside = f" ({asked})" if asked else ""
    first = f"{name}: {percents(summary['skip_share'])} of inputs skipped{beside}"
    parts = [f"{first}, which {_saved(summary, overhead)}."]
    of_skipped, of_trained, scored = losses
    if of_skipped is not None and of_trained is not None:
        parts.append(
            f"Mean loss of skipped examples: {of_skipped:.4f} ({scored:,} were scored), of trained "
            f"ones {of_trained:.4f}."
        )
    if cost is None:
        parts.append("What it cost is not known: the run has too few points of evaluation.")
    else:
        half = "" if cost.half is None else f" ± {cost.half:.4f}"
        told = f"cost about {cost.auc:.4f}{half} AUC by this run's learning curve"
        if cost.auc < 0:
            told = f"gained about {-cost.auc:.4f}{half} AUC: by its learning curve this run fell"
        parts.append(
            f"As many skipped at random would have {told}; what this rule cost shows only beside "
            "runs without it."
        )
    return " ".join(parts)


def percents(share: float) -> str:
    """A share as a sentence has it.

    Example:
        >>> percents(0.305)
        '30.5 %'
    """
    return f"{100 * share:.1f} %"


def _saved(summary: Mapping[str, Any], overhead: float) -> str:
    """The time that skipping saved, or took."""
    each = (summary["train_seconds"] - overhead) / max(1, summary["inputs_trained"])
    saved = each * summary["inputs_skipped"] - overhead
    beside = f"beside {summary['train_seconds']:.1f} s of training"
    if saved >= 0:
        return f"saved about {saved:.1f} s {beside}"
    return f"took about {-saved:.1f} s more than it saved {beside}"
