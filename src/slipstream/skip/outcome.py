"""The sentence at the end of a run that skips: shares, time saved, losses, and a yardstick."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from slipstream.t_distribution import t_quantile


class Yardstick(NamedTuple):
    """The cost of skipping at random, by the learning curve.

    Args:
        auc: The AUC that it would have cost.
        half: Half of its 95 % interval, by Student's t; None from fewer than four points.
    """

    auc: float
    half: float | None


def yardstick(curve: Sequence[Mapping[str, Any]], share: float) -> Yardstick | None:
    """The cost of training on a random part, by a line through AUC against the log of examples.

    Args:
        curve: Points with `auc` and `inputs_trained`.
        share: The share of examples left out.

    Example:
        >>> curve = [{"auc": 0.7 + 0.01 * math.log(n), "inputs_trained": n} for n in (5, 6, 8, 10)]
        >>> round(yardstick(curve, 0.2).auc, 5)
        0.00223
    """
    points = sorted(
        {
            (math.log(point["inputs_trained"]), point["auc"])
            for point in curve
            if point.get("auc") is not None and point.get("inputs_trained")
        }
    )
    if len({x for x, _ in points}) < 3 or not 0 < share < 1:
        return None
    x, y = np.array(points).T
    x = x - x.mean()
    slope = float(x @ y / (x @ x))
    rest, free = y - y.mean() - slope * x, len(points) - 2
    scale = math.log(1 / (1 - share))
    half = None
    if free > 1:
        half = t_quantile(0.975, free) * scale * math.sqrt(float(rest @ rest / (x @ x)) / free)
    return Yardstick(scale * slope, half)


def sentence(
    rule: str,
    summary: Mapping[str, Any],
    overhead: float,
    *,
    target: str = "",
    why: str = "",
) -> str:
    """What was skipped, the time that it saved, and what is known of its cost.

    Args:
        rule: The rule's name.
        summary: The run's summary with that of skipping.
        overhead: Seconds that skipping itself took.
        target: The share beside the target.
        why: The reason, if nothing was skipped.
    """
    if not summary["inputs_skipped"]:
        if frozen := summary.get("row_updates_frozen"):
            return (
                f"{rule}: no example was skipped, and {percent(frozen)} of row updates left out "
                f"after the warm-up; choosing them took {overhead:.1f} s. Only runs without it "
                "show the cost."
            )
        because = f" ({why})" if why else ""
        return f"{rule}: nothing was skipped{because}; judging took {overhead:.1f} s."
    beside = f" ({target})" if target else ""
    parts = [
        f"{rule}: {percent(summary['skip_share'])} of examples skipped{beside}, which "
        f"{_saved(summary, overhead)}."
    ]
    skipped, trained = summary.get("loss_skipped"), summary.get("loss_trained")
    if skipped is not None and trained is not None:
        parts.append(
            f"Mean loss: {skipped:.4f} of skipped examples ({summary['skipped_examples_scored']:,} "
            f"were scored), {trained:.4f} of trained ones."
        )
    cost = summary.get("cost_at_random")
    if cost is None:
        parts.append("The cost is not known: the run has too few points of evaluation.")
    else:
        half = "" if cost["half"] is None else f" ± {cost['half']:.4f}"
        auc = f"{'cost' if cost['auc'] >= 0 else 'gained'} about {abs(cost['auc']):.4f}{half} AUC"
        parts.append(
            f"By this run's learning curve, as many skipped at random would have {auc}; only runs "
            "without skipping show the cost of this rule."
        )
    return " ".join(parts)


def percent(share: float) -> str:
    """A share as text.

    Example:
        >>> percent(0.305)
        '30.5 %'
    """
    return f"{100 * share:.1f} %"


def _saved(summary: Mapping[str, Any], overhead: float) -> str:
    """The time that skipping saved, or took."""
    per_example = (summary["train_seconds"] - overhead) / max(1, summary["inputs_trained"])
    saved = per_example * summary["inputs_skipped"] - overhead
    beside = f"beside {summary['train_seconds']:.1f} s of training"
    if saved >= 0:
        return f"saved about {saved:.1f} s {beside}"
    return f"took about {-saved:.1f} s more than it saved {beside}"
