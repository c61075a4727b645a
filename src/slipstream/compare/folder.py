"""The folder of a comparison: its runs, and what is needed to go on with it.

`compare.json` says on what data and machine it is made; `configs/` has what was asked of each run,
`runs/` the runs, `logs/` what they said. A run that has come to its end is never trained again, and
never taken for one that was asked for differently.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from slipstream.compare.grid import PlannedRun
from slipstream.config import Config
from slipstream.errors import ConfigError
from slipstream.report.runs import COMPARISON, RUNS

_CONFIGS, _LOGS = "configs", "logs"
_TABLES = ("results.csv", "results.json", "ablation.csv", "ablation.json", "ablation.md")
_PARTS = (COMPARISON, _CONFIGS, RUNS, _LOGS, *_TABLES, "report.html", "plots")
_SHOWN = 3


class Folder:
    """Where a comparison is.

    Args:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, one: PlannedRun) -> Path:
        """The folder of a run."""
        return self.path / RUNS / one.name

    def config(self, one: PlannedRun) -> Path:
        """The file with what was asked of a run."""
        return self.path / _CONFIGS / f"{one.name}.yaml"

    def log(self, one: PlannedRun) -> Path:
        """The file with what a run said."""
        return self.path / _LOGS / f"{one.name}.log"

    def ended(self, one: PlannedRun) -> bool:
        """Whether a run has come to its end."""
        return (self.run(one) / "summary.json").is_file()

    def begun(self, one: PlannedRun) -> bool:
        """Whether a run has begun."""
        return (self.run(one) / "config.yaml").is_file()

    def open(self, runs: list[PlannedRun], about: dict[str, Any], *, force: bool) -> None:
        """Make the folder ready for some runs, or say why that cannot be.

        Args:
            runs: Those to be trained; others that are there stay.
            about: What must be the same to go on, under `same`, and what is only told.
            force: Replace a comparison that is there.
        """
        self._check_free()
        if force:
            for name in _PARTS:
                path = self.path / name
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        self._check_data(about)
        for one in runs:
            self._check_asked(one)
        for path in (self.path / name for name in (_CONFIGS, RUNS, _LOGS)):
            path.mkdir(parents=True, exist_ok=True)
        for one in runs:
            one.config.write(self.config(one))
        self._write({**about, "resumed": self._about().get("resumed", [])})

    def note_resumed(self, one: PlannedRun) -> None:
        """Remember that a run was stopped and gone on with: its seconds hold a second start."""
        about = self._about()
        self._write({**about, "resumed": sorted({*about["resumed"], one.name})})

    def forget_checkpoints(self, one: PlannedRun) -> None:
        """Remove the weights of a run that has ended: a comparison needs its numbers only."""
        shutil.rmtree(self.run(one) / "checkpoints", ignore_errors=True)

    def _about(self) -> dict[str, Any]:
        path = self.path / COMPARISON
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    def _write(self, about: dict[str, Any]) -> None:
        aside = self.path / f"{COMPARISON}.partial"
        aside.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        aside.replace(self.path / COMPARISON)

    def _check_free(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"{self.path} is a file; a comparison needs a folder.")
        names = {path.name for path in self.path.iterdir()} if self.path.is_dir() else set()
        if names and COMPARISON not in names:
            raise ConfigError(
                f"{self.path} holds {min(names)} and is no comparison, so it is left alone. Choose "
                "another folder."
            )

    def _check_data(self, about: dict[str, Any]) -> None:
        before = self._about().get("same", about["same"])
        other = [key for key, value in about["same"].items() if before.get(key) != value]
        if other:
            raise ConfigError(
                f"The comparison in {self.path} was begun with another {_listed(other)}: "
                f"{before.get(other[0])} instead of {about['same'][other[0]]}. Choose another "
                "folder, or begin anew with --force."
            )

    def _check_asked(self, one: PlannedRun) -> None:
        path = self.config(one)
        if not path.is_file() or not self.begun(one):
            return
        before = Config.read(path)
        other = before.differences(one.config)
        if other:
            raise ConfigError(
                f"{one.name} in {self.path} was begun with another {_listed(other)}. Say the same "
                "as then to go on, choose another folder, or begin anew with --force."
            )


def _listed(names: list[str]) -> str:
    shown = names[:_SHOWN] + ["others"] * (len(names) > _SHOWN)
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
