"""Controls: as many inputs skipped at the same times, by chance."""

from __future__ import annotations

from typing import Any

from slipstream.ablate.lines import RANDOM, RANDOM_HOT, Keys, Line

_ALIKE = 0.02
_HOT = ("skip.hot_memory", "skip.hot_sample", "skip.h_f")


def control_keys(line: Line, rule: str, summary: dict[str, Any], epochs: int = 1) -> Keys | None:
    """The keys of a run that skips by chance what another one has skipped, decision by decision.

    Args:
        line: What was trained.
        rule: The rule of the control.
        summary: What came out of it; where it has skipped nothing there is no control, and None.
        epochs: How many it was trained for.
    """
    decisions = ((summary.get("skipping") or {}).get("decisions") or [])[1:]
    if not decisions or not summary.get("skip_share"):
        return None
    # Of another rule's keys only those that say which rows are hot mean something to a control.
    kept = {k: v for k, v in line.keys.items() if not k.startswith("skip.") or k in _HOT}
    per_epoch = summary["inputs_total"] / epochs
    first, last = (decisions[k]["position"] / per_epoch for k in (0, -1))
    shares = _shares(decisions)
    keys = {
        **kept,
        "skip.rule": RANDOM,
        **({"skip.hot_only": True} if rule == RANDOM_HOT else {}),
        "skip.warmup": round(min(1.0, first), 4),
        "skip.shares": shares,
    }
    interval = line.keys.get("skip.interval")
    if len(shares) > 1:  # as the line decided, which may count its interval in hot inputs
        interval = max(0.0001, round((last - first) / (len(shares) - 1), 4))
    return keys if interval is None else keys | {"skip.interval": interval}


def _shares(decisions: list[dict[str, Any]]) -> list[float]:
    """The share of each decision in whole per cents; one, where all are about the same."""
    shares: list[float] = []
    for one in decisions:
        before = shares[-1] if shares else 0.0  # stands for a decision that judged no input
        shares.append(before if one.get("share") is None else min(0.99, round(one["share"], 2)))
    if max(shares) - min(shares) > _ALIKE:
        return shares
    judged = [one for one in decisions if one.get("share") is not None]
    inputs = sum(one["inputs"] for one in judged)
    return [round(sum(one["share"] * one["inputs"] for one in judged) / max(1, inputs), 2)]
