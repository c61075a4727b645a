"""From folders of runs to a report on disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstream.environment import summary_line
from slipstream.errors import SlipstreamError
from slipstream.number_format import size
from slipstream.report.page import Chapter, page, standalone
from slipstream.report.plots import places, plots_of
from slipstream.report.results import Result, results_of
from slipstream.report.runs import COMPARISON, RunRecord, find_runs
from slipstream.report.svg import Plot
from slipstream.report.variants import Setting, settings_of

_TWICE = "Their seconds hold a second start, which makes them look slower than they are."


@dataclass(frozen=True)
class Report:
    """What is known of some runs.

    Args:
        chapters: One for each setting.
        machine: Where the runs were made, in words, where that is known.
    """

    chapters: Sequence[Chapter]
    machine: str = ""

    @property
    def results(self) -> list[tuple[str, Sequence[Result]]]:
        """The label of each setting, and its results."""
        return [(one.setting.label, one.results) for one in self.chapters]

    def write(self, path: Path, plots: Path | None = None) -> None:
        """Write the page, and its pictures as SVG files into a folder.

        Args:
            path: The file of the page.
            plots: The folder of the pictures; None writes none.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f"{path.name}.partial")
        aside.write_text(page(self.chapters, self.machine), encoding="utf-8")
        aside.replace(path)
        if plots is None:
            return
        plots.mkdir(parents=True, exist_ok=True)
        for number, one in enumerate(self.chapters):
            prefix = f"{number}-" if len(self.chapters) > 1 else ""
            for plot in one.plots:
                (plots / f"{prefix}{plot.name}.svg").write_text(standalone(plot), encoding="utf-8")


def report_on(folders: Sequence[Path], *, skew: bool = True) -> Report:
    """Look at runs.

    Args:
        folders: Each a run, or a folder of runs.
        skew: Whether to look at their data sets too.
    """
    settings = settings_of(find_runs(folders))
    abouts = [about for folder in folders if (about := _about(folder))]
    resumed = {name for about in abouts for name in about.get("resumed", [])}
    numbers = places(settings)
    seen: dict[tuple[str, str], list[Plot]] = {}
    chapters = []
    for one in settings:
        results = results_of(one)
        drawn, remarks = _skew(one, seen) if skew else ([], [])
        plots = [*plots_of(one, results, numbers), *drawn]
        again = [run.name for run in one.runs if run.folder.name in resumed]
        if again:
            remarks.append(f"Stopped and gone on with: {', '.join(again)}. {_TWICE}")
        chapters.append(Chapter(one, results, plots, remarks))
    machines = dict.fromkeys(summary_line(about["machine"]) for about in abouts)
    return Report(chapters, "; ".join(machines))


def _about(folder: Path) -> dict[str, Any]:
    """What a comparison says of itself; nothing where a folder is none."""
    for path in (folder / COMPARISON, folder.parent / COMPARISON):
        if path.is_file():
            return dict(json.loads(path.read_text(encoding="utf-8")))
    return {}


def _skew(
    setting: Setting, seen: dict[tuple[str, str], list[Plot]]
) -> tuple[list[Plot], list[str]]:
    """The pictures of a setting's data set, or why there are none."""
    run = setting.runs[0]
    data = str(run.config.get("data") or "")
    if not data:
        return [], ["The data set was in memory only, so its access skew is not shown."]
    if not Path(data).is_dir():
        return [], [f"The data set is no longer in {data}, so its access skew is not shown."]
    try:
        key = (data, repr({k: v for k, v in run.keys.items() if k.startswith(("model", "embed"))}))
        if key not in seen:
            seen[key] = _skew_of(run, setting)
        return seen[key], []
    except (SlipstreamError, OSError) as error:
        return [], [f"The access skew of {data} is not shown: {error}"]


def _skew_of(run: RunRecord, setting: Setting) -> list[Plot]:
    from slipstream.config import Config
    from slipstream.data.dataset import Dataset
    from slipstream.report.skew import skew_plots
    from slipstream.training.build import model_of

    config = Config.from_mapping(run.config)
    dataset = Dataset.open(config.data)
    layout = model_of(config, dataset).layout
    return skew_plots(dataset, layout, _budgets(setting, dataset, layout))


def _budgets(setting: Setting, dataset: Any, layout: Any) -> list[tuple[int, str]]:
    """The sizes of the fast tiers that runs had, in words."""
    from slipstream.config import Config
    from slipstream.pipeline.strategies import answers
    from slipstream.placement.budget import all_bytes
    from slipstream.training.build import fast_bytes

    made: dict[int, str] = {}
    for run in setting.runs:
        config = Config.from_mapping(run.config)
        if answers(config).placement is not None:
            text = config.placement.fast_memory
            if text not in made.values():
                bytes_ = fast_bytes(config, layout, dataset)
                made[bytes_] = text
    total = all_bytes(layout)
    return [
        (bytes_, f"fast memory {text}: {size(bytes_)}, {bytes_ / total:.0%} of all rows")
        for bytes_, text in sorted(made.items())
    ]
