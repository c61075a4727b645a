"""The answer in words: what is faster, what it costs, and whether that is more than noise."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.analyze.report.results import MIN_SEEDS, Result
from slipstream.analyze.report.settings import RunGroup
from slipstream.analyze.report.statistics import Interval


def headline(results: Sequence[Result]) -> str:
    """The answer in one or two sentences."""
    compared = [result for result in results if result.baseline and result.speed_up]
    if not compared:
        return _without_comparison(results)
    base = compared[0].baseline
    assert base is not None
    best = max(compared, key=_speed)
    if all(result.speed_up is None or result.speed_up.seeds < MIN_SEEDS for result in compared):
        so_far = f"So far nothing is faster than {base.label}."
        if _speed(best) > 1:
            so_far = f"So far {best.label} is the fastest: {_times(best)}, and {_auc(best)}."
        return (
            f"{so_far} Fewer than three seeds cannot tell a difference from noise: compare with "
            "three or more before you decide."
        )
    free = [result for result in compared if result.faster and not _lowers_auc(result)]
    costly = [result for result in compared if result.faster and _lowers_auc(result)]
    if free:
        best = max(free, key=_speed)
        text = f"{best.label} is {_times(best)}, and {_auc(best)}."
    else:
        same = " at the same AUC" if costly else ""
        text = f"Nothing is faster than {base.label}{same} by more than noise."
    fastest = max((*free, *costly), key=_speed, default=None)
    if fastest in costly:
        still = " still" if free else ""
        text += f" {fastest.label} is faster{still}: {_times(fastest)}, but {_auc(fastest)}."
    return text


def notes(group: RunGroup, results: Sequence[Result]) -> list[str]:
    """Remarks about the results, each a sentence."""
    parts = [run.summary["trained_part"] for run in group.runs if run.summary]
    sentences = [f"Part of the log that was trained: {parts[0]}."] if parts else []
    seeds = min((result.setting.seeds for result in results), default=0)
    if 1 < seeds < MIN_SEEDS:
        sentences.append(f"Some lines have only {seeds} seeds, so their intervals are wide.")
    base = next((result.baseline for result in results if result.baseline), None)
    if base is not None:
        same = [result.label for result in results if result.same_weights]
        if same:
            end = "ends" if len(same) == 1 else "end"
            sentences.append(
                f"{_listed(same)} {end} with exactly the weights of {base.label}: only the time "
                "differs."
            )
        noisy = [
            result.label
            for result in results
            if not result.same_weights and _verdict(result.differences.get("auc")) == "noise"
        ]
        if noisy:
            sentences.append(
                f"The AUC of {_listed(noisy)} differs from the AUC of {base.label} by no more than "
                "noise: the 95 % interval of the difference contains 0."
            )
        if base.strategy != "plain" or base.skips:
            sentences.append(
                "No run trains all examples with the strategy plain, so the baseline is "
                f"{base.label}."
            )
    for result in results:
        skipped = result.mean("skip_share") or result.mean("row_updates_frozen")
        if result.setting.skips and not skipped:
            skipping = (result.setting.runs[0].summary or {}).get("skipping") or {}
            sentences.append(
                f"{result.label} skipped nothing. {skipping.get('sentence', '')}".strip()
            )
    tiers = [result for result in results if "bytes_copied_per_input" in result.values]
    if tiers and all((run.summary or {}).get("device", "cpu") == "cpu" for run in group.runs):
        sentences.append(
            "On a CPU the fast tier is the same memory as the slow one, so a placement cannot save "
            "time here. The bytes copied show what it would save on a GPU."
        )
    sentences += [
        f"{result.label} trained {result.mean('oversized_steps'):.3g} batches of a run in the slow "
        "tier, because their rows did not fit the fast tier. Give it more fast memory or smaller "
        "batches."
        for result in tiers
        if result.mean("oversized_steps")
    ]
    unfinished = [run.name for run in group.runs if run.summary is None]
    if unfinished:
        has = "has" if len(unfinished) == 1 else "have"
        sentences.append(f"{_listed(unfinished)} {has} not ended, and {has} no line in the table.")
    return sentences


def _without_comparison(results: Sequence[Result]) -> str:
    if not results:
        return "None of these runs has ended, so there is nothing to compare yet."
    result = results[0]
    seeds = result.setting.seeds
    auc = f"an AUC of {result.mean('auc'):.4f}" if "auc" in result.means else "no AUC"
    over = f" over {seeds} seeds" if seeds > 1 else ""
    return (
        f"{result.label} reached {auc}{over}. To compare it, train another strategy on the same "
        "data, or use slipstream compare."
    )


def _lowers_auc(result: Result) -> bool:
    return _verdict(result.differences.get("auc")) == "lower"


def _verdict(number: Interval | None) -> str:
    return "unknown" if number is None else number.verdict()


def _auc(result: Result) -> str:
    change = result.differences.get("auc")
    if result.same_weights:
        return "it ends with the same weights"
    if change is None:
        return "its AUC cannot be compared"
    if change.mean == 0 and change.verdict() in ("same", "unknown"):
        return "its AUC is the same"
    if change.low is None or change.high is None:
        return f"its AUC is {abs(change.mean):.4f} {'lower' if change.mean < 0 else 'higher'}"
    ends = f"{change.mean:+.4f}, 95 % interval {change.low:+.4f} to {change.high:+.4f}"
    ends = ends.replace("-", "−")
    if change.verdict() == "noise":
        return f"its AUC is the same within noise ({ends})"
    word = "lowers" if change.mean < 0 else "raises"
    return f"it {word} the AUC by {abs(change.mean):.4f} ({ends})"


def _times(result: Result) -> str:
    speed, base = result.speed_up, result.baseline
    assert speed is not None
    assert base is not None
    ends = "" if speed.low is None else f" (95 % interval {speed.low:.2f} to {speed.high:.2f})"
    return f"{speed.mean:.2f} times as fast as {base.label}{ends}"


def _speed(result: Result) -> float:
    return result.speed_up.mean if result.speed_up else 0.0


def _listed(names: Sequence[str]) -> str:
    shown = list(names) if len(names) <= 6 else [*names[:5], f"{len(names) - 5} others"]
    between = "; " if any("," in name for name in shown) else ", "
    return shown[0] if len(shown) == 1 else f"{between.join(shown[:-1])} and {shown[-1]}"
