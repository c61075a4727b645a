"""Reads the folders of runs and writes their report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstream.analyze.environment import summary_line
from slipstream.analyze.report.page import Chapter, page, standalone
from slipstream.analyze.report.plots import colours_of, plots_of
from slipstream.analyze.report.results import results_of
from slipstream.analyze.report.runs import COMPARISON, find_runs
from slipstream.analyze.report.settings import groups_of


@dataclass(frozen=True)
class RunReport:
    """The results of some runs, a chapter for each group, and the machine in words."""

    chapters: Sequence[Chapter]
    machine: str = ""

    def write(self, path: Path, plots: Path | None = None) -> None:
        """Write the page to a file, and its plots as SVG files to a folder."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(self.chapters, self.machine), encoding="utf-8")
        if plots is None:
            return
        plots.mkdir(parents=True, exist_ok=True)
        for number, chapter in enumerate(self.chapters):
            prefix = f"{number}-" if len(self.chapters) > 1 else ""
            for plot in chapter.plots:
                (plots / f"{prefix}{plot.name}.svg").write_text(standalone(plot), encoding="utf-8")


def report_on(folders: Sequence[Path]) -> RunReport:
    """The report on some folders, each of which is a run, contains runs, or is a comparison."""
    groups = groups_of(find_runs(folders))
    comparisons = [about for folder in folders if (about := _comparison(folder))]
    resumed = {name for about in comparisons for name in about.get("resumed", [])}
    colours = colours_of(groups)
    chapters = []
    for group in groups:
        results = results_of(group)
        names = [run.name for run in group.runs if run.folder.name in resumed]
        remark = (
            f"Stopped and resumed: {', '.join(names)}. Their seconds include a second start, so "
            "they look slower than they are."
        )
        plots = plots_of(group, results, colours)
        chapters.append(Chapter(group, results, plots, [remark] if names else []))
    machines = dict.fromkeys(summary_line(about["machine"]) for about in comparisons)
    return RunReport(chapters, "; ".join(machines))


def _comparison(folder: Path) -> dict[str, Any]:
    """The content of `compare.json`; empty if the folder is not of a comparison."""
    for path in (folder / COMPARISON, folder.parent / COMPARISON):
        if path.is_file():
            return dict(json.loads(path.read_text(encoding="utf-8")))
    return {}
