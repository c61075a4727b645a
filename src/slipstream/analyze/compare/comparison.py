"""A comparison from beginning to end."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from slipstream import gpu
from slipstream.analyze.compare.folder import Folder
from slipstream.analyze.compare.grid import Choices, planned_runs
from slipstream.analyze.compare.presets import scaled_to, with_own_options
from slipstream.analyze.compare.runner import OnEvent, RunEvent, run_all
from slipstream.analyze.environment import environment
from slipstream.analyze.report.write import RunReport, report_on
from slipstream.config import Config
from slipstream.data.dataset import Dataset
from slipstream.errors import ConfigError, SlipstreamError
from slipstream.training import build
from slipstream.training.complete_config import config_of_run
from slipstream.training.example_order import order_of


class Comparison:
    """Several strategies, models and seeds on the same data, in one folder.

    Args:
        base: The configuration that all runs share, with the data set.
        choices: What they differ in.
        out: The folder.

    Example:
        >>> base = slipstream.Config(data="clicks", batch_size=256)
        >>> choices = Choices(strategies=["plain", "fast"], seeds=2)
        >>> comparison = Comparison(base, choices, Path("compared"))
        >>> [run.name for run in comparison.runs]
        ['plain-seed0', 'fast-seed0', 'fast-seed1', 'plain-seed1']
    """

    def __init__(self, base: Config, choices: Choices, out: Path) -> None:
        self.dataset = Dataset.open(base.data)
        base = base.replace(data=str(Path(base.data).absolute()))
        self.folder = Folder(out)
        runs = planned_runs(base, choices)
        configs = with_own_options([run.config for run in runs])
        pairs = zip(runs, configs, strict=True)
        self.runs = [replace(run, config=config) for run, config in pairs]
        if choices.preset:
            self.runs = [
                replace(run, config=scaled_to(run.config, self.dataset)) for run in self.runs
            ]

    def check(self, *, leave_out: bool, warn: Callable[[str], None]) -> None:
        """Raise an error for a setting that cannot be trained, or warn and leave it out."""
        for run in {run.setting: run for run in self.runs}.values():
            try:
                build.model_of(run.config, self.dataset)
                gpu.check_device(run.config)
                build.check(run.config, self.dataset)
                config_of_run(run.config, order_of(run.config, self.dataset))
            except SlipstreamError as error:
                if not leave_out or run.setting == "plain":
                    raise ConfigError(f"{run.setting} cannot be trained. {error}") from None
                warn(f"{run.setting} is left out: {error}")
                self.runs = [other for other in self.runs if other.setting != run.setting]
        if not self.runs:
            raise ConfigError("None of these settings can be trained.")

    def train(
        self,
        on_event: OnEvent,
        *,
        force: bool = False,
        keep_checkpoints: bool = False,
        seconds: float | None = None,
    ) -> list[RunEvent]:
        """Train all runs that have not ended yet, and write the results after each run.

        Args:
            on_event: Called with every event of a run.
            force: Replace an earlier comparison in the folder.
            keep_checkpoints: Keep the weights of the runs.
            seconds: Begin no further seed that would not end within this time.

        Returns:
            An event for each run that failed.
        """
        same = {"data": self.dataset.manifest.checksum}
        self.folder.open(self.runs, {"same": same, "machine": environment()}, force=force)

        def write_first(event: RunEvent) -> None:
            if event.state == "ended":
                self._write_results(report_on([self.folder.path]))
            on_event(event)

        return run_all(self.folder, self.runs, write_first, keep_checkpoints, seconds)

    def write(self) -> RunReport | None:
        """Write the results and the report of the runs that have ended; None if none has."""
        if not any(map(self.folder.ended, self.runs)):
            return None
        report = report_on([self.folder.path])
        self._write_results(report)
        report.write(self.folder.path / "report.html", self.folder.path / "plots")
        return report

    def _write_results(self, report: RunReport) -> None:
        groups = [
            {"group": chapter.group.label, "results": [each.to_json() for each in chapter.results]}
            for chapter in report.chapters
        ]
        (self.folder.path / "results.json").write_text(json.dumps(groups, indent=2) + "\n")
