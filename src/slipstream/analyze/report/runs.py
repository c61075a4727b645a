"""Reads the folders of runs, ended or not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from slipstream.config import files
from slipstream.config.config import leaves
from slipstream.errors import ConfigError, did_you_mean

CONFIG, METRICS, SUMMARY = "config.yaml", "metrics.jsonl", "summary.json"
COMPARISON, RUNS = "compare.json", "runs"
"""The description of a comparison, and the folder of its runs."""


@dataclass(frozen=True)
class RunRecord:
    """The content of the folder of a run; the name is the end of its path."""

    folder: Path
    name: str
    config: dict[str, Any]
    summary: dict[str, Any] | None  # None if the run has not ended
    lines: list[dict[str, Any]]  # its reports during training

    @cached_property
    def keys(self) -> dict[str, Any]:
        """The configuration by full key, such as `dense.lr`."""
        return {".".join(path): value for path, value in leaves(self.config).items()}

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
        """The examples that were trained or skipped up to the last report."""
        return max((int(line.get("position", 0)) for line in self.lines), default=0)

    @cached_property
    def start_seconds(self) -> float:
        """Training time up to the first report: mostly compiling and first reads."""
        training = self.of_kind("training")
        return float(training[0]["train_seconds"]) if len(training) > 1 else 0.0

    @property
    def inputs_per_second(self) -> float | None:
        """Examples per second after the first report, trained and skipped."""
        training = self.of_kind("training")
        if len(training) > 1:
            first, last = training[0], training[-1]
            seconds = last["train_seconds"] - first["train_seconds"]
            if seconds > 0:
                return (last["position"] - first["position"]) / seconds
        if self.summary is None:
            return None
        return float(self.summary["samples_per_second"])

    @property
    def auc_over_time(self) -> list[tuple[float, float]]:
        """Seconds of training after the first report, with the AUC at that time."""
        return [
            (max(0.0, line["train_seconds"] - self.start_seconds), line["auc"])
            for line in self.of_kind("evaluation")
            if line.get("auc") is not None and "train_seconds" in line
        ]


def find_runs(paths: Sequence[Path]) -> list[RunRecord]:
    """The runs in some folders: each is a run, contains runs, or is a comparison."""
    folders: dict[Path, Path] = {}
    for path in paths:
        inside = _runs_in(path)
        if not inside:
            raise ConfigError(_no_run(path))
        for folder in inside:
            folders.setdefault(folder.resolve(), folder)
    names = _short_names(list(folders))
    return [
        replace(read_run(folder), name=name)
        for folder, name in zip(folders.values(), names, strict=True)
    ]


def read_run(folder: Path) -> RunRecord:
    """The run in a folder."""
    if not (folder / CONFIG).is_file():
        raise ConfigError(_no_run(folder))
    config, _ = files.read(folder / CONFIG)
    summary = folder / SUMMARY
    results = _json(summary.read_text(encoding="utf-8"), summary) if summary.is_file() else None
    return RunRecord(folder, folder.name, config, results, list(_lines(folder / METRICS)))


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if line.endswith("\n"):  # otherwise it is not fully written
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


def _runs_in(path: Path) -> list[Path]:
    for pattern in (CONFIG, f"{RUNS}/*/{CONFIG}", f"*/{CONFIG}"):
        if configs := sorted(path.glob(pattern)):
            return [config.parent for config in configs]
    return []


def _no_run(path: Path) -> str:
    if path.is_dir():
        return (
            f"There is no run in {path}: neither it nor a folder in it contains {CONFIG}. Name the "
            "folder that you used as --out of slipstream train or slipstream compare."
        )
    siblings = sorted(other.parent.name for other in path.parent.glob(f"*/{CONFIG}"))
    return f"There is no folder {path}.{did_you_mean(path.name, siblings)}"


def _short_names(paths: Sequence[Path]) -> list[str]:
    """The last parts of the paths, as many as make them differ."""
    count = 1
    while len({path.parts[-count:] for path in paths}) < len(paths):
        count += 1
    return ["/".join(path.parts[-count:]) for path in paths]
