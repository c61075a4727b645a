"""The table of the benchmark of skipping."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.skipping.ledger import Result
from benchmarks.skipping.tasks import FULL, LOG, NAMES, SETTINGS, Task

from slipstream.analyze.report.statistics import interval

_SHOWN = 0.02  # a share that is closer to the wanted one is not shown
_LABELS = {"random-hot": "`random`, `hot_only`", "freeze": "`freeze` (of row updates)"}
_TABLE = re.compile(r"(<!-- measured -->\n).*?(<!-- end -->)", re.DOTALL)


def table(results: Sequence[tuple[Task, Result]], share: float) -> str:
    """The AUC that each rule lost in each setting, as a Markdown table."""
    by_run: dict[tuple[str, str], dict[int, Any]] = {}
    for task, result in results:
        by_run.setdefault((task["setting"], task["rule"]), {})[task["seed"]] = result
    settings = [each for each in (*SETTINGS, LOG) if (each, FULL) in by_run]
    lines = [["rule", *settings], ["---", *(["---:"] * len(settings))]]
    for rule in NAMES:
        cells = [
            _cell(by_run.get((each, rule), {}), by_run[each, FULL], share) for each in settings
        ]
        if any(cells):
            lines.append([_LABELS.get(rule, f"`{rule}`"), *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(runs: dict[int, Result], full: dict[int, Result], share: float) -> str:
    """The mean loss over the seeds with its 95 % interval, and the share if it is another."""
    seeds = sorted(set(runs) & set(full))
    if not seeds:
        return ""
    skipped = statistics.fmean(runs[seed]["share"] for seed in seeds)
    if skipped < 0.005:
        return "nothing skipped"
    loss = interval([full[seed]["auc"] - runs[seed]["auc"] for seed in seeds])
    half = "" if loss.high is None else f" ± {loss.high - loss.mean:.5f}"
    reached = f" ({100 * skipped:.0f} %)" if abs(skipped - share) > _SHOWN else ""
    return f"{loss.mean:.5f}{half}{reached}"


def write_table(text: str, page: Path) -> None:
    """Replace the table of a page."""
    old = page.read_text(encoding="utf-8")
    new, count = _TABLE.subn(lambda match: f"{match[1]}\n{text}\n\n{match[2]}", old)
    if not count:
        raise SystemExit(f"{page} has no place for the table: <!-- measured --> to <!-- end -->.")
    page.write_text(new, encoding="utf-8")
