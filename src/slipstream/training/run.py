"""A run's folder: everything about one training."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from slipstream.config import Config
from slipstream.data.atomic_write import try_lock
from slipstream.errors import ConfigError
from slipstream.training.trackers import tracker_files

CONFIG, METRICS, SUMMARY = "config.yaml", "metrics.jsonl", "summary.json"
CHECKPOINTS = "checkpoints"
# The configuration goes first when a run is removed: without it there is no run.
_PARTS = (CONFIG, SUMMARY, METRICS, CHECKPOINTS, "report.html")
_LOCK = "lock"


class Run:
    """The folder of a run: its configuration, the lines it reports, its summary."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkpoints = folder / CHECKPOINTS

    @classmethod
    def open(cls, folder: Path) -> Run:
        """The run that is in a folder."""
        run = cls(folder)
        if not (folder / CONFIG).is_file():
            raise ConfigError(
                f"There is no run in {folder}: it has no {CONFIG}. Name a folder that slipstream "
                "train has written (--out). To start a new run, omit --resume."
            )
        return run

    @property
    def config(self) -> Config:
        """The complete configuration, enough to repeat the run."""
        return Config.read(self.folder / CONFIG)

    @property
    def summary(self) -> dict[str, Any] | None:
        """The summary, once the run has ended."""
        path = self.folder / SUMMARY
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    def lines(self) -> list[dict[str, Any]]:
        """The lines of metrics so far, without a last line that is only half written."""
        path = self.folder / METRICS
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line[-1] == "\n"]

    def check_replaceable(self, force: bool = False) -> None:
        """Raise an error where a new run would overwrite other files, or a run without `force`."""
        if self.folder.exists() and not self.folder.is_dir():
            raise ConfigError(
                f"{self.folder} is a file; a run needs a folder. Choose another name."
            )
        names = {path.name for path in self.folder.iterdir()} if self.folder.is_dir() else set()
        parts = {*_PARTS, *tracker_files()}
        known = {name + end for name in (*parts, _LOCK) for end in ("", ".partial")}
        if names - known:
            raise ConfigError(
                f"{self.folder} holds {min(names - known)!r}, which does not belong to a run. "
                "Choose another folder, or import the module of the tracker that wrote it."
            )
        if names & parts and not force:
            raise ConfigError(
                f"{self.folder} already holds a run. Continue it with --resume, replace it with "
                "--force, or choose another folder."
            )

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Lock the folder for this process; it is created if it does not exist."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / _LOCK
        lock = try_lock(path)
        if lock is None:
            raise ConfigError(
                f"Another process is training in {self.folder}. Wait for it to end, or choose "
                "another folder."
            )
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink()
            lock.close()

    def begin(self, config: Config) -> None:
        """Start a run, and remove the files of an earlier one; the folder must be locked."""
        for name in (*_PARTS, *tracker_files()):
            path = self.folder / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        self.write_config(config)

    def write_config(self, config: Config) -> None:
        """Write the configuration; the summary of another configuration is removed."""
        (self.folder / SUMMARY).unlink(missing_ok=True)
        with self._written(CONFIG) as partial:
            config.write(partial)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write the summary."""
        with self._written(SUMMARY) as partial:
            partial.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")

    @contextmanager
    def _written(self, name: str) -> Iterator[Path]:
        """A path to write to, which gets its name once the file is on the disk."""
        partial = self.folder / f"{name}.partial"
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(self.folder / name)


class Lines:
    """`metrics.jsonl`: one line a report."""

    def __init__(self, folder: Path, length: int) -> None:
        # A resumed run keeps these bytes and writes the rest again.
        self._path = folder / METRICS
        self._file = self._path.open("ab")
        # A shorter file was changed from outside: it is not filled up with zeros.
        self.missing = max(0, length - self._path.stat().st_size)
        self._file.truncate(length - self.missing)

    def write(self, line: Mapping[str, Any]) -> None:
        """Add a line."""
        self._file.write((json.dumps(line) + "\n").encode())
        self._file.flush()

    def flush(self) -> int:
        """Write everything to the disk; returns the length of the file."""
        os.fsync(self._file.fileno())
        return self._path.stat().st_size

    def close(self) -> None:
        """Finish the file."""
        self._file.close()
