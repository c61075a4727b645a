"""The sentence at the end of a run that skips: the share, the time saved, and losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def sentence(
    rule: str,
    summary: Mapping[str, Any],
    overhead: float,
    *,
    target: str = "",
    why: str = "",
) -> str:
    """What was skipped, the time that it saved, and the losses.

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
                f"after the warm-up; choosing them took {overhead:.1f} s."
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
    parts.append("Only runs without skipping, and with `random`, show the cost.")
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
