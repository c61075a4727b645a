"""A table of runs that leave inputs out: what those were like, what keeps the rest."""

from __future__ import annotations

from collections import Counter
from typing import Any

from slipstream.number_format import percent, size
from slipstream.report.runs import RunRecord
from slipstream.report.variants import Setting

NAMES = (
    *("run", "skipped", "label rate", "loss", "calibration", "kept by"),
    *("deciding", "scoring", "memory"),
)
_TABLES = 3  # that are named


def skipped_table(setting: Setting) -> list[list[str]]:
    """A row for each run with a rule, of one cell for each of `NAMES`; none where no run has one.

    Args:
        setting: Its runs, by variant.
    """
    return [
        [f"{variant.label}\nseed {run.seed}", *_cells(run, run.summary, about)]
        for variant in setting.variants
        for run in variant.runs
        if run.summary and (about := run.summary.get("skipping"))
    ]


def _cells(run: RunRecord, summary: dict[str, Any], about: dict[str, Any]) -> list[str]:
    seconds = about.get("overhead_seconds", {})
    scoring = seconds.get("control", 0.0)
    calibration = summary.get("calibration")
    return [
        percent(summary["skip_share"]),
        _beside(about, "label_rate"),
        _beside(about, "loss"),
        "" if calibration is None else f"{calibration:.3f}",
        _kept_by(run),
        f"{sum(seconds.values()) - scoring:.1f} s",
        f"{scoring:.1f} s",
        size(about.get("overhead_bytes", 0)),
    ]


def _beside(about: dict[str, Any], name: str) -> str:
    """A number of skipped inputs, beside that of trained ones."""
    skipped, trained = about.get(f"{name}_skipped"), about.get(f"{name}_trained")
    shown = ("none" if one is None else f"{one:.4f}" for one in (skipped, trained))
    return "{}\ntrained {}".format(*shown)


def _kept_by(run: RunRecord) -> str:
    """The tables that kept most inputs from being skipped, with the mean of their shares."""
    lines = run.of_kind("skipping")
    shares: Counter[str] = Counter()
    for line in lines:
        for table, share in line.get("kept_by", {}).items():
            shares[table] += share / len(lines)
    named = [f"{table} {percent(share)}" for table, share in shares.most_common(_TABLES)]
    return "\n".join(filter(None, (", ".join(named[:1]), ", ".join(named[1:]))))
