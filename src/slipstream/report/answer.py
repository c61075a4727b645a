"""The answer in words: is it faster, what did it cost, and is that more than noise."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.number_format import size
from slipstream.report.results import FEWEST, Result
from slipstream.report.statistics import Interval
from slipstream.report.variants import Setting


def headline(results: Sequence[Result]) -> str:
    """One or two sentences that a reader who reads nothing else should read."""
    compared = [one for one in results if one.baseline is not None and one.speed_up is not None]
    if not compared:
        return _alone(results)
    base = compared[0].baseline
    assert base is not None
    if max(one.speed_up.seeds for one in compared if one.speed_up) < FEWEST:
        best = max(compared, key=_speed)
        so_far = (
            f"So far {best.label} is the fastest, {_times(best.speed_up)} as fast as {base.label}, "
            f"with {_auc_alone(best)}."
            if _speed(best) > 1
            else f"So far nothing is faster than {base.label}."
        )
        return (
            f"{so_far} Fewer than three seeds say next to nothing about noise: compare with three "
            "or more before you decide."
        )
    faster = [one for one in compared if one.faster and not costs(one)]
    paid = [one for one in compared if one.faster and costs(one)]
    if faster:
        best = max(faster, key=_speed)
        text = (
            f"{best.label} is {_times(best.speed_up)} as fast as {base.label} "
            f"({_range(best.speed_up)}), and {_auc(best)}."
        )
    else:
        at = " at the same AUC" if paid else ""
        text = (
            f"Nothing here is faster than {base.label}{at} by more than noise: {base.label} is the "
            "choice on this machine."
        )
    dearer = [one for one in paid if not faster or _speed(one) > max(map(_speed, faster))]
    if dearer:
        best = max(dearer, key=_speed)
        more = "faster still" if faster else "faster"
        text += (
            f" {best.label} is {more}, {_times(best.speed_up)} ({_range(best.speed_up)}), but "
            f"{_auc(best)}."
        )
    return text


def notes(setting: Setting, results: Sequence[Result]) -> list[str]:
    """What a reader of the table must know, each in a sentence."""
    made = []
    seeds = min((len({run.seed for run in one.variant.runs}) for one in results), default=0)
    if 1 < seeds < FEWEST:
        made.append(f"Some rows have only {seeds} seeds; their intervals are wide for that reason.")
    same = [one.label for one in results if one.same_weights]
    base = next((one.baseline for one in results if one.baseline is not None), None)
    if same and base is not None:
        what, they = ("ends", "it differs") if len(same) == 1 else ("end", "they differ")
        made.append(
            f"{_listed(same)} {what} with the weights of {base.label}, to the bit: {they} in time, "
            "and not in quality."
        )
    noisy = [one.label for one in results if _within_noise(one)]
    if noisy:
        made.append(
            f"The AUC of {_listed(noisy)} differs from {base.label if base else 'the baseline'}'s "
            "by no more than noise: the 95 % interval of the difference, seed by seed, holds 0."
        )
    for one in results:
        if one.variant.skips and one.means["skip_share"].mean == 0:
            about = (one.variant.runs[0].summary or {}).get("skipping") or {}
            made.append(f"{one.label} left nothing out. {about.get('sentence', '')}".rstrip())
    if base is not None and base.strategy != "plain":
        made.append(
            f"There is no run of plain training among these, so differences are from {base.label}."
        )
    tiers = [one for one in results if "bytes_moved_per_input" in one.values]
    devices = {str((run.summary or {}).get("device", "cpu")) for run in setting.runs}
    if tiers and devices == {"cpu"}:
        made.append(
            "These runs were on a CPU, where both tiers are the same memory: placements only move "
            "bytes that a GPU would feel. What they would save it shows in the bytes moved, not in "
            f"these seconds. {_least_moved(tiers)}".rstrip()
        )
    for one in filter(_aside, tiers):
        made.append(
            f"{one.label} made {_aside(one):.3g} steps of a run in the slow tier, because their "
            "rows did not fit the fast one. They move no bytes, and would be slow on a GPU: give "
            "it more fast memory, or smaller batches."
        )
    unfinished = [run.name for run in setting.runs if run.summary is None]
    if unfinished:
        what = "has" if len(unfinished) == 1 else "have"
        made.append(
            f"{_listed(unfinished)} {what} not come to an end, and {what} no part in the table."
        )
    return made


def _aside(result: Result) -> float:
    """Steps of a run that were made in the slow tier."""
    return result.means["steps_aside"].mean if "steps_aside" in result.means else 0.0


def _least_moved(tiers: Sequence[Result]) -> str:
    whole = [one for one in tiers if not _aside(one)]
    if len(whole) < 2:
        return ""
    least = min(whole, key=lambda one: one.means["bytes_moved_per_input"].mean)
    bytes_ = size(least.means["bytes_moved_per_input"].mean)
    found = least.means["hot_access_share"].mean if "hot_access_share" in least.means else 0.0
    return (
        f"{least.label} moved the fewest, {bytes_} an input, and found {found:.0%} of the rows "
        "that its batches needed in the fast tier."
    )


def costs(result: Result) -> bool:
    """Whether its AUC is lower than the baseline's by more than noise."""
    return _verdict(result.differences.get("auc"), 0.0) == "lower"


def _within_noise(result: Result) -> bool:
    return _verdict(result.differences.get("auc"), 0.0) == "noise" and not result.same_weights


def _alone(results: Sequence[Result]) -> str:
    if not results:
        return "None of these runs has come to its end: there is nothing to compare yet."
    one = results[0]
    auc = one.means.get("auc")
    seeds = len({run.seed for run in one.variant.runs})
    reached = f"an AUC of {auc.mean:.4f}" if auc else "no AUC"
    over = f" over {seeds} seeds" if seeds > 1 else ""
    return (
        f"{one.label} reached {reached}{over}. There is no run here to compare it with: train "
        "another strategy on the same data, or use slipstream compare."
    )


def _auc(result: Result) -> str:
    if result.same_weights:
        return f"it ends with {result.baseline.label if result.baseline else 'the'}'s weights"
    change = result.differences.get("auc")
    if change is None:
        return "its AUC cannot be compared"
    if change.verdict() == "same":
        return "its AUC is the same"
    if change.verdict() == "noise":
        return f"its AUC is the same within noise ({_change(change)})"
    word = "lowers" if change.mean < 0 else "raises"
    return f"it {word} the AUC by {abs(change.mean):.4f} ({_change(change)})"


def _auc_alone(result: Result) -> str:
    if result.same_weights:
        return "the same weights in the end"
    change = result.differences.get("auc")
    if change is None:
        return "an AUC that cannot be compared"
    return f"an AUC that is {abs(change.mean):.4f} {'lower' if change.mean < 0 else 'higher'}"


def _change(one: Interval) -> str:
    assert one.low is not None
    assert one.high is not None
    return f"{one.mean:+.4f}, 95 % interval {one.low:+.4f} to {one.high:+.4f}".replace("-", "−")


def _range(one: Interval | None) -> str:
    if one is None or one.low is None or one.high is None:
        return "one seed"
    return f"95 % interval {one.low:.2f} to {one.high:.2f}"


def _times(one: Interval | None) -> str:
    return f"{one.mean:.2f} times" if one else "as"


def _speed(result: Result) -> float:
    return result.speed_up.mean if result.speed_up else 0.0


def _verdict(one: Interval | None, nothing: float) -> str:
    return "unknown" if one is None else one.verdict(nothing)


def _listed(names: Sequence[str]) -> str:
    shown = list(names) if len(names) <= 6 else [*names[:5], f"{len(names) - 5} others"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
