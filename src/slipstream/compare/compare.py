"""A comparison from beginning to end."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from slipstream.compare.folder import Folder
from slipstream.compare.grid import Choices, planned
from slipstream.compare.runner import Event, Tell, run_all
from slipstream.config import Config
from slipstream.data.dataset import Dataset
from slipstream.environment import environment
from slipstream.errors import ConfigError, SlipstreamError
from slipstream.report.runs import RUNS
from slipstream.report.table import as_csv
from slipstream.report.write import Report, report_on
from slipstream.training import build
from slipstream.training.resolved import resolved


class Comparison:
    """Several strategies, models and seeds on the same data, in a folder.

    Args:
        base: The configuration of all runs, with the data set.
        choices: What they differ in.
        out: The folder.

    Example:
        >>> base = slipstream.Config(data="clicks", batch_size=256)
        >>> comparison = Comparison(base, Choices(["plain", "fast"], seeds=2), Path("compared"))
        >>> [run.name for run in comparison.runs]
        ['plain-seed0', 'fast-seed0', 'fast-seed1', 'plain-seed1']
    """

    def __init__(self, base: Config, choices: Choices, out: Path) -> None:
        self.dataset = Dataset.open(base.data)
        base = replace(base, data=str(Path(base.data).absolute()))
        self.folder = Folder(out)
        self.runs = planned(base, choices)

    @property
    def variants(self) -> list[str]:
        """What is compared, in words."""
        return list(dict.fromkeys(one.variant for one in self.runs))

    def check(self, *, leave_out: bool, say: Callable[[str], None]) -> None:
        """Find what cannot be trained before anything is: it is an error, or left out and said.

        Args:
            leave_out: Whether to go on without what cannot be trained.
            say: Told what is left out.
        """
        for variant in self.variants:
            one = next(run for run in self.runs if run.variant == variant)
            try:
                build.model_of(one.config, self.dataset)
                build.check_device(one.config)
                build.check(one.config, self.dataset)
                resolved(one.config, build.order_of(one.config, self.dataset))
            except SlipstreamError as error:
                if not leave_out or one.config.strategy == "plain":
                    raise ConfigError(f"{variant} cannot be trained. {error}") from None
                say(f"{variant} is left out: {error}")
                self.runs = [run for run in self.runs if run.variant != variant]

    def train(
        self, tell: Tell, *, force: bool = False, keep: bool = False, seconds: float | None = None
    ) -> list[Event]:
        """Train all runs that have not been trained; what came out is written as they end.

        Args:
            tell: Told what happens.
            force: Replace a comparison that is there.
            keep: Keep the weights of runs.
            seconds: Begin no further seed that would not be through within this time.

        Returns:
            What became of runs that failed.
        """
        about = {
            "same": {"data": self.dataset.manifest.checksum},
            "variants": self.variants,
            "machine": environment(),
        }
        self.folder.open(self.runs, about, force=force)

        def told(event: Event) -> None:
            if event.state == "ended":
                self._write_results(self._report())
            tell(event)

        return run_all(self.folder, self.runs, told, keep_checkpoints=keep, seconds=seconds)

    def write(self) -> Report | None:
        """Write results and report of what has ended so far; None where nothing has."""
        if not any(map(self.folder.ended, self.runs)):
            return None
        self._write_results(self._report())
        report = report_on([self.folder.path])
        report.write(self.folder.path / "report.html", self.folder.path / "plots")
        return report

    def _report(self) -> Report:
        return report_on([self.folder.path / RUNS], skew=False)

    def _write_results(self, report: Report) -> None:
        made: list[dict[str, Any]] = [
            {"setting": label, "results": [one.to_json() for one in results]}
            for label, results in report.results
        ]
        (self.folder.path / "results.json").write_text(json.dumps(made, indent=2) + "\n")
        (self.folder.path / "results.csv").write_text(as_csv(report.results), encoding="utf-8")
