"""The table of results: the same cells for the terminal, the page and a CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import NamedTuple

from slipstream.number_format import compact, signed, size
from slipstream.report.results import MEASURES, Result
from slipstream.report.statistics import Interval


class Field(NamedTuple):
    """One column of the table.

    Args:
        name: Its heading.
        text: What a result shows in it, and after a line end what qualifies that; empty where it
            has nothing to show.
    """

    name: str
    text: Callable[[Result], str]


def _mean(name: str, shown: Callable[[float], str]) -> Callable[[Result], str]:
    return lambda one: shown(one.means[name].mean) if name in one.means else ""


def _spread(name: str, digits: int) -> Callable[[Result], str]:
    def text(result: Result) -> str:
        one = result.means.get(name)
        if one is None:
            return ""
        half = f"\n± {one.high - one.mean:.{digits}f}" if one.high is not None else ""
        return f"{one.mean:.{digits}f}{half}"

    return text


def _change(name: str) -> Callable[[Result], str]:
    def text(result: Result) -> str:
        one = result.differences.get(name)
        if one is None:
            return "baseline" if result.baseline is None else ""
        if result.same_weights or one.verdict() == "same":
            return "0\nto the bit" if result.same_weights else "0"
        if one.high is None:
            return f"{signed(one.mean, 4)}\none seed"
        noise = ", within noise" if one.verdict() == "noise" else ""
        return f"{signed(one.mean, 4)}\n± {signed(one.high - one.mean, 4, plus=False)}{noise}"

    return text


def _speed(result: Result) -> str:
    return "1" if result.baseline is None else _times(result.speed_up)


def _sooner(result: Result) -> str:
    if not result.to_auc:
        return "not reached"
    seconds = sum(result.to_auc.values()) / len(result.to_auc)
    times = _times(result.sooner).replace("\n", ", ")
    return f"{compact(seconds)} s\n{times}".rstrip()


def _times(one: Interval | None) -> str:
    if one is None:
        return ""
    if one.low is None or one.high is None:
        return f"{one.mean:.2f}×"
    words = ", within noise" if one.verdict(1.0) in ("noise", "same") else ""
    return f"{one.mean:.2f}×\n{_ratio(one.low)} to {_ratio(one.high)}{words}"


def _ratio(value: float) -> str:
    """Two runs on a busy machine can be so far apart that two decimals say nothing."""
    return f"{value:.2f}" if 0.01 <= value < 100 else compact(value)


def _found(result: Result) -> str:
    """Of a strategy without a fast tier nothing is found there, which is not worth a word."""
    tier = "bytes_moved_per_input" in result.values
    return f"{result.means['hot_access_share'].mean:.1%}" if tier else ""


def _seeds(result: Result) -> str:
    return str(len({run.seed for run in result.variant.runs}))


FIELDS = (
    Field("strategy", lambda one: one.label),
    Field("seeds", _seeds),
    Field("inputs/s", _mean("inputs_per_second", compact)),
    Field("speed-up", _speed),
    Field("AUC", _spread("auc", 4)),
    Field("change of AUC", _change("auc")),
    Field("to the same AUC", _sooner),
    Field("logloss", _spread("logloss", 4)),
    Field("change of logloss", _change("logloss")),
    Field("NE", _spread("normalized_entropy", 4)),
    Field("change of NE", _change("normalized_entropy")),
    Field("skipped", _mean("skip_share", lambda share: f"{share:.1%}")),
    Field("found in fast tier", _found),
    Field("bytes moved an input", _mean("bytes_moved_per_input", size)),
    Field("host memory", _mean("host_bytes", size)),
    Field("device memory", _mean("device_bytes", size)),
)
SHORT = ("strategy", "seeds", "inputs/s", "speed-up", "AUC", "change of AUC", "to the same AUC")
"""The columns of the answer; the others are beside it."""


def cells(
    results: Sequence[Result], only: Sequence[str] | None = None
) -> tuple[list[str], list[list[str]]]:
    """Headings and rows; columns with nothing to say are left out.

    Args:
        results: One for each row.
        only: The headings to keep; None keeps all.
    """
    kept = []
    for field in FIELDS:
        texts = [field.text(one) for one in results]
        idle = field.name in ("skipped", "device memory") and not any(map(_is_some, texts))
        wanted = only is None or field.name in only
        if wanted and any(texts) and not idle:
            kept.append((field.name, texts))
    rows = [list(row) for row in zip(*(texts for _, texts in kept), strict=True)]
    return [name for name, _ in kept], rows


def as_csv(settings: Sequence[tuple[str, Sequence[Result]]]) -> str:
    """Every measure of every variant as numbers, a line each; empty where there is none.

    Args:
        settings: The label of each setting, and its results.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    names = list(MEASURES)
    compared = ["auc", "logloss", "normalized_entropy"]
    head = ["setting", "variant", "baseline", "seeds", "same_weights"]
    head += [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
    head += [f"{name}_change{end}" for name in compared for end in ("", "_low", "_high")]
    head += [f"{n}{end}" for n in ("speed_up", "sooner") for end in ("", "_low", "_high")]
    writer.writerow(head)
    for label, results in settings:
        for one in results:
            base = one.baseline.label if one.baseline else ""
            row: list[object] = [label, one.label, base, _seeds(one), one.same_weights]
            row += [end for name in names for end in _ends(one.means.get(name))]
            row += [end for name in compared for end in _ends(one.differences.get(name))]
            row += [*_ends(one.speed_up), *_ends(one.sooner)]
            writer.writerow(["" if cell is None else cell for cell in row])
    return file.getvalue()


def _ends(one: Interval | None) -> tuple[float | None, ...]:
    return (None, None, None) if one is None else (one.mean, one.low, one.high)


def _is_some(text: str) -> bool:
    return text not in ("", "0 B", "0.0%")
