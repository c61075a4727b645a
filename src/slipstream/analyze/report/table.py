"""The table of results: the same cells in the terminal, on the page and in a CSV file."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slipstream.analyze.report.results import Result
from slipstream.analyze.report.statistics import Interval
from slipstream.number_format import compact, signed, size

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


def _skipped(result: Result) -> str:
    frozen = result.mean("row_updates_frozen")
    if frozen:
        return f"{frozen:.1%}\nof row updates"
    return f"{result.mean('skip_share'):.1%}" if result.setting.skips else ""


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
    "train": _mean("train_seconds", lambda seconds: f"{compact(seconds)} s"),
    "logloss": _with_interval("logloss", _decimals(4)),
    "change of logloss": _change("logloss"),
    "NE": _with_interval("normalized_entropy", _decimals(4)),
    "change of NE": _change("normalized_entropy"),
    "calibration": _mean("calibration", _decimals(3)),
    "found in fast tier": _mean("hot_access_share", lambda share: f"{share:.1%}" if share else ""),
    "bytes copied per example": _mean("bytes_copied_per_input", size),
    "host memory": _mean("host_bytes", size),
    "device memory": _mean("device_bytes", size),
}
"""The columns: what a result shows in each, after a line end how certain it is."""
SHORT = (
    *("strategy", "seeds", "examples/s", "speed-up"),
    *("AUC", "change of AUC", "skipped", "AUC against random"),
)
"""The columns of the first table; the others are in a second one."""


def cells(
    results: Sequence[Result], only: Sequence[str] | None = None
) -> tuple[list[str], list[list[str]]]:
    """Headings and rows; a column without content is left out.

    With `only`, these headings in their order. Without anything to compare there are no
    differences.
    """
    names = [*(only or FIELDS)]
    if all(result.baseline is None for result in results):
        names = [name for name in names if name != "speed-up" and not name.startswith("change of")]
    columns = {name: [FIELDS[name](result) for result in results] for name in names}
    columns = {name: texts for name, texts in columns.items() if not set(texts) <= {"", "0 B"}}
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]
