"""The table of results: the same cells in the terminal, on the page and in a CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

from slipstream.analyze.report.results import COMPARED, MEASURES, Result
from slipstream.analyze.report.statistics import Interval
from slipstream.number_format import compact, percent, signed, size

Cell = Callable[[Result], str]


def _mean(name: str, shown: Callable[[float], str]) -> Cell:
    return lambda result: shown(result.mean(name)) if name in result.means else ""


def _with_interval(name: str, shown: Callable[[float], str]) -> Cell:
    def text(result: Result) -> str:
        mean = result.means.get(name)
        if mean is None:
            return ""
        half = f"\n± {shown(mean.high - mean.mean)}" if mean.high is not None else ""
        return f"{shown(mean.mean)}{half}"

    return text


def _change(name: str) -> Cell:
    def text(result: Result) -> str:
        if result.baseline is None:
            return "baseline"
        if result.same_weights and name in result.differences:
            return "0\nsame weights"
        return _difference(result.differences.get(name))

    return text


def _difference(number: Interval | None) -> str:
    if number is None:
        return ""
    if number.verdict() == "same":
        return "0"
    if number.high is None:
        return f"{signed(number.mean, 4)}\none seed"
    noise = ", within noise" if number.verdict() == "noise" else ""
    half = signed(number.high - number.mean, 4, plus=False)
    return f"{signed(number.mean, 4)}\n± {half}{noise}"


def _times(number: Interval | None) -> str:
    if number is None:
        return ""
    if number.low is None or number.high is None:
        return f"{number.mean:.2f}×"
    noise = ", within noise" if number.verdict(1.0) in ("noise", "same") else ""
    return f"{number.mean:.2f}×\n{number.low:.2f} to {number.high:.2f}{noise}"


def _to_auc(result: Result) -> str:
    if not result.to_auc:
        return "not reached"
    seconds = sum(result.to_auc.values()) / len(result.to_auc)
    return f"{compact(seconds)} s\n{_times(result.sooner).replace(chr(10), ', ')}".rstrip()


def _skipped(result: Result) -> str:
    frozen = result.mean("row_updates_frozen")
    if frozen:
        return f"{frozen:.1%}\nof row updates"
    return f"{result.mean('skip_share'):.1%}" if result.setting.skips else ""


def _of_skipped(name: str, shown: Callable[[float], str]) -> Cell:
    def text(result: Result) -> str:
        means = (result.means.get(f"{name}_{which}") for which in ("skipped", "trained"))
        texts = ["none" if mean is None else shown(mean.mean) for mean in means]
        return f"{texts[0]}\ntrained {texts[1]}" if result.setting.skips else ""

    return text


def _decimals(digits: int) -> Callable[[float], str]:
    return lambda value: f"{value:.{digits}f}"


FIELDS: dict[str, Cell] = {
    "strategy": lambda result: result.label,
    "seeds": lambda result: str(result.setting.seeds),
    "examples/s": _with_interval("inputs_per_second", compact),
    "speed-up": lambda result: "1" if result.baseline is None else _times(result.speed_up),
    "AUC": _with_interval("auc", _decimals(4)),
    "change of AUC": _change("auc"),
    "skipped": _skipped,
    "AUC against random": lambda result: _difference(result.against_random),
    "to the same AUC": _to_auc,
    "train": _mean("train_seconds", lambda seconds: f"{compact(seconds)} s"),
    "logloss": _with_interval("logloss", _decimals(4)),
    "change of logloss": _change("logloss"),
    "NE": _with_interval("normalized_entropy", _decimals(4)),
    "change of NE": _change("normalized_entropy"),
    "calibration": _mean("calibration", _decimals(3)),
    "label rate of skipped": _of_skipped("label_rate", percent),
    "loss of skipped": _of_skipped("loss", _decimals(4)),
    "deciding": _mean("deciding_seconds", lambda seconds: f"{compact(seconds)} s"),
    "found in fast tier": _mean("hot_access_share", lambda share: f"{share:.1%}" if share else ""),
    "bytes moved an example": _mean("bytes_moved_per_input", size),
    "host memory": _mean("host_bytes", size),
    "device memory": _mean("device_bytes", size),
}
"""The columns: what a result shows in each, after a line end how certain it is."""
SHORT = (
    *("strategy", "seeds", "examples/s", "speed-up", "AUC", "change of AUC", "skipped"),
    *("AUC against random", "to the same AUC"),
)
"""The columns of the first table; the others are in a second one."""


def cells(
    results: Sequence[Result], only: Sequence[str] | None = None
) -> tuple[list[str], list[list[str]]]:
    """Headings and rows; a column without content is left out.

    Args:
        results: One result for each row.
        only: The headings to keep; None keeps all.
    """
    columns = {
        name: [cell(result) for result in results]
        for name, cell in FIELDS.items()
        if only is None or name in only
    }
    columns = {name: texts for name, texts in columns.items() if not set(texts) <= {"", "0 B"}}
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def as_csv(groups: Sequence[tuple[str, Sequence[Result]]]) -> str:
    """Every measure of every setting as numbers, one line for each setting.

    Args:
        groups: The label of each group, and its results.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    changes = [f"{name}_change" for name in COMPARED]
    intervals = [*MEASURES, *changes, "speed_up", "sooner", "against_random"]
    ends = [f"{name}{end}" for name in intervals for end in ("", "_low", "_high")]
    writer.writerow(["group", "setting", "baseline", "seeds", "same_weights", *ends])
    for label, results in groups:
        for result in results:
            numbers = [result.means.get(name) for name in MEASURES]
            numbers += [result.differences.get(name) for name in COMPARED]
            numbers += [result.speed_up, result.sooner, result.against_random]
            base = result.baseline.label if result.baseline else ""
            row: list[object] = [label, result.label, base, result.setting.seeds]
            row.append(result.same_weights)
            for number in numbers:
                row += number[:3] if number else [None] * 3
            writer.writerow(row)
    return file.getvalue()
