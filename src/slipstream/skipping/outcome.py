"""What skipping came to: one honest sentence, with the learning curve as its yardstick."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np


class Yardstick(NamedTuple):
    """What skipping at random would have cost, by the learning curve.

    Args:
        auc: The AUC it would have cost.
        error: Its standard error; None from fewer than four points.
    """

    auc: float
    error: float | None


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
    error = None
    if len(points) > 3:
        error = scale * math.sqrt(float(left @ left) / (len(points) - 2) / spread)
    return Yardstick(scale * slope, error)


def sentence(
    rule: str,
    summary: Mapping[str, Any],
    overhead: float,
    cost: Yardstick | None,
    how: str = "",
) -> str:
    """What was skipped, what that saved, and what is known of its cost.

    Args:
        rule: The rule's name.
        summary: The run's.
        overhead: Seconds that skipping itself took.
        cost: What random skipping would have cost.
        how: What else to say of the rule.
    """
    name = f"{rule}, {how}" if how else rule
    share, trained = summary["skip_share"], max(1, summary["inputs_trained"])
    each = (summary["train_seconds"] - overhead) / trained
    saved = each * summary["inputs_skipped"] - overhead
    first = (
        f"{name}: {share:.1%} of inputs skipped".replace("%", " %")
        + f", which saved about {saved:.1f} s beside {summary['train_seconds']:.1f} s of training."
    )
    if not summary["inputs_skipped"]:
        return f"{name}: nothing was skipped; looking for it took {overhead:.1f} s."
    if cost is None:
        return f"{first} What it cost is not known: the run has too few points of evaluation."
    about = f"{cost.auc:.4f}" + ("" if cost.error is None else f" ± {2 * cost.error:.4f}")
    return (
        f"{first} As many skipped at random would have cost about {about} AUC by this run's "
        "learning curve; what this rule cost shows only beside runs without it."
    )
