"""The folder of a comparison: its runs, and what is needed to continue it.

`compare.json` names the data and the machine; `configs/` holds the configuration of each run,
`runs/` the runs, `logs/` their output. A run that has ended is never trained again, and never
confused with a run of another configuration.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slipstream.analyze.compare.grid import PlannedRun
from slipstream.analyze.report.runs import COMPARISON, RUNS
from slipstream.config import Config
from slipstream.errors import ConfigError

_CONFIGS, _LOGS = "configs", "logs"
_RESULTS = ("results.json", "report.html", "plots")
_SHOWN = 3


class Folder:
    """The files of a comparison."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, run: PlannedRun) -> Path:
        """The folder of a run."""
        return self.path / RUNS / run.name

    def config(self, run: PlannedRun) -> Path:
        """The file with the configuration of a run."""
        return self.path / _CONFIGS / f"{run.name}.yaml"

    def log(self, run: PlannedRun) -> Path:
        """The file with the output of a run."""
        return self.path / _LOGS / f"{run.name}.log"

    def ended(self, run: PlannedRun) -> bool:
        """Whether a run has ended."""
        return (self.run(run) / "summary.json").is_file()

    def begun(self, run: PlannedRun) -> bool:
        """Whether a run has begun."""
        return (self.run(run) / "config.yaml").is_file()

    def open(self, runs: Sequence[PlannedRun], about: dict[str, Any], *, force: bool) -> None:
        """Prepare the folder for some runs, or raise an error that says why that is impossible.

        Args:
            runs: The runs to train; other runs in the folder stay.
            about: The content of `compare.json`; the values under `same` must not change.
            force: Replace an earlier comparison.
        """
        self._check_free()
        if force:
            for name in (COMPARISON, _CONFIGS, RUNS, _LOGS, *_RESULTS):
                path = self.path / name
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        before = self._about().get("same", {})
        changed = [key for key, value in about["same"].items() if before.get(key, value) != value]
        self._check_unchanged("The comparison", changed)
        for run in runs:
            if self.config(run).is_file() and self.begun(run):
                changed = Config.read(self.config(run)).differences(run.config)
                self._check_unchanged(run.name, changed)
        for name in (_CONFIGS, RUNS, _LOGS):
            (self.path / name).mkdir(parents=True, exist_ok=True)
        for run in runs:
            run.config.write(self.config(run))
        self._write({**about, "resumed": self._about().get("resumed", [])})

    def note_resumed(self, run: PlannedRun) -> None:
        """Record that a run was stopped and resumed: its seconds include a second start."""
        about = self._about()
        self._write({**about, "resumed": sorted({*about["resumed"], run.name})})

    def _about(self) -> dict[str, Any]:
        path = self.path / COMPARISON
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    def _write(self, about: dict[str, Any]) -> None:
        partial = self.path / f"{COMPARISON}.partial"
        partial.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        partial.replace(self.path / COMPARISON)

    def _check_free(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"{self.path} is a file; a comparison needs a folder.")
        names = {path.name for path in self.path.iterdir()} if self.path.is_dir() else set()
        if names and COMPARISON not in names:
            raise ConfigError(
                f"{self.path} contains {min(names)} and is not the folder of a comparison, so "
                "nothing in it is changed. Choose another folder."
            )

    def _check_unchanged(self, name: str, changed: list[str]) -> None:
        if changed:
            shown = ", ".join(changed[:_SHOWN]) + " and others" * (len(changed) > _SHOWN)
            raise ConfigError(
                f"{name} in {self.path} was begun with another {shown}. Use the same data and "
                "options as then to continue it, choose another folder, or add --force to replace "
                "it."
            )
