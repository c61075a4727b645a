"""Runs as a report sees them: their folders read, whatever state they are in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from slipstream.config import files
from slipstream.config.mapping import leaves
from slipstream.errors import ConfigError, did_you_mean

CONFIG, METRICS, SUMMARY = "config.yaml", "metrics.jsonl", "summary.json"
COMPARISON, RUNS = "compare.json", "runs"
"""What a comparison says of itself, and the folder within it that holds its runs."""


@dataclass(frozen=True)
class RunRecord:
    """What a run has left in its folder.

    Args:
        folder: Where it is.
        name: What to call it.
        config: Its configuration, complete.
        summary: What came out; None where it has not come to its end.
        lines: What it reported on the way.
    """

    folder: Path
    name: str
    config: dict[str, Any]
    summary: dict[str, Any] | None
    lines: list[dict[str, Any]]

    @cached_property
    def keys(self) -> dict[str, Any]:
        """The configuration by full key, such as `dense.lr`."""
        return {".".join(path): value for path, value in leaves(self.config)}

    @property
    def seed(self) -> int:
        """Its seed."""
        return int(self.config.get("seed", 0))

    @property
    def strategy(self) -> str:
        """Its strategy."""
        return str(self.config.get("strategy", "plain"))

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """The lines of a kind, such as `training`."""
        return [line for line in self.lines if line.get("kind") == kind]

    @property
    def position(self) -> int:
        """The inputs that were gone through, trained or skipped, as far as was reported."""
        return max((int(line.get("position", 0)) for line in self.lines), default=0)

    @cached_property
    def start_seconds(self) -> float:
        """Training time up to the first report: mostly compiling, and first reads."""
        training = self.of_kind("training")
        return float(training[0]["train_seconds"]) if len(training) > 1 else 0.0

    @property
    def inputs_per_second(self) -> float | None:
        """Inputs gone through a second, skipped ones counted, after the first report."""
        training = self.of_kind("training")
        if len(training) > 1:
            first, last = training[0], training[-1]
            seconds = last["train_seconds"] - first["train_seconds"]
            if seconds > 0:
                return (last["position"] - first["position"]) / seconds
        if self.summary is None:
            return None
        trained = 1 - float(self.summary.get("skip_share") or 0.0)  # the summary counts those alone
        return float(self.summary["samples_per_second"]) / max(trained, 1e-9)

    @property
    def auc_over_time(self) -> list[tuple[float, float]]:
        """Seconds of training after the first report, and the AUC then."""
        return [
            (max(0.0, line["train_seconds"] - self.start_seconds), line["auc"])
            for line in self.of_kind("evaluation")
            if line.get("auc") is not None and "train_seconds" in line
        ]


def find_runs(paths: Sequence[Path]) -> list[RunRecord]:
    """The runs in some folders: each is a run, or holds runs, or is a comparison.

    Args:
        paths: The folders.
    """
    found: dict[Path, RunRecord] = {}
    for path in paths:
        inside = list(_runs_in(path))
        if not inside:
            raise ConfigError(_no_run(path))
        for folder in inside:
            found.setdefault(folder.resolve(), read_run(folder))
    names = _short_names([run.folder for run in found.values()])
    return [
        RunRecord(run.folder, name, run.config, run.summary, run.lines)
        for run, name in zip(found.values(), names, strict=True)
    ]


def read_run(folder: Path) -> RunRecord:
    """The run in a folder."""
    if not (folder / CONFIG).is_file():
        raise ConfigError(_no_run(folder))
    config, _ = files.read(folder / CONFIG)
    summary = folder / SUMMARY
    return RunRecord(
        folder,
        folder.name,
        config,
        _json(summary.read_text(encoding="utf-8"), summary) if summary.is_file() else None,
        list(_lines(folder / METRICS)),
    )


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if line.endswith("\n"):  # else it is only half written
            yield _json(line, path, f", line {number}")


def _json(text: str, path: Path, where: str = "") -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ConfigError(
            f"{path}{where} is damaged: it is not a JSON mapping. Leave this run out, or train it "
            "again."
        )
    return value


def _runs_in(path: Path) -> Iterable[Path]:
    if (path / CONFIG).is_file():
        return [path]
    for within in (path / RUNS, path):
        if within.is_dir():
            inside = sorted(one for one in within.iterdir() if (one / CONFIG).is_file())
            if inside:
                return inside
    return []


def _no_run(path: Path) -> str:
    if path.is_dir():
        return (
            f"There is no run in {path}, and none in the folders in it: a run has a {CONFIG}. Give "
            "the folder that slipstream train or slipstream compare was given as --out."
        )
    siblings = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
    near = [one for one in siblings if (path.parent / one / CONFIG).is_file()]
    return f"There is no folder {path}.{did_you_mean(path.name, sorted(near))}"


def _short_names(folders: Sequence[Path]) -> list[str]:
    """The last parts of the paths, as many as it takes to tell them apart."""
    parts = [folder.resolve().parts for folder in folders]
    for count in range(1, max(map(len, parts), default=1) + 1):
        names = ["/".join(one[-count:]) for one in parts]
        if len(set(names)) == len(names):
            return names
    return [str(folder) for folder in folders]
