"""A run's folder: everything about one training."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipstream.config import Config
from slipstream.errors import ConfigError

CONFIG, METRICS, SUMMARY, CHECKPOINTS = (
    "config.yaml",
    "metrics.jsonl",
    "summary.json",
    "checkpoints",
)
_PARTS = (CONFIG, METRICS, SUMMARY, CHECKPOINTS, "tensorboard", "report.html")


class Run:
    """The folder of a run: its configuration, the lines it reports, its summary.

    Args:
        folder: Where it is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkpoints = folder / CHECKPOINTS

    @classmethod
    def create(cls, folder: Path, config: Config, *, force: bool = False) -> Run:
        """Begin a run in a new folder, or, with `force`, in place of the run that is there."""
        run = cls(folder)
        if run.exists and not force:
            raise ConfigError(
                f"{folder} already holds a run. Go on with it: --resume; replace it: --force; or "
                "choose another folder."
            )
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"{folder} is a file; a run needs a folder. Choose another name.")
        folder.mkdir(parents=True, exist_ok=True)
        if force:
            run._clear()
        config.write(folder / CONFIG)
        return run

    @classmethod
    def open(cls, folder: Path) -> Run:
        """The run that is in a folder."""
        run = cls(folder)
        if not run.exists:
            raise ConfigError(f"There is no run in {folder}: it has no {CONFIG}.")
        return run

    @property
    def exists(self) -> bool:
        """Whether a run has begun here."""
        return (self.folder / CONFIG).is_file()

    @property
    def config(self) -> Config:
        """The complete configuration, enough to repeat the run."""
        return Config.read(self.folder / CONFIG)

    @property
    def summary(self) -> dict[str, Any] | None:
        """What came out, once the run has ended."""
        path = self.folder / SUMMARY
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    def lines(self) -> list[dict[str, Any]]:
        """What the run has reported so far."""
        path = self.folder / METRICS
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        return [json.loads(line) for line in text.splitlines()]

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Put the summary in place, whole."""
        aside = self.folder / f"{SUMMARY}.partial"
        with aside.open("w", encoding="utf-8") as file:
            json.dump(summary, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        aside.replace(self.folder / SUMMARY)

    def _clear(self) -> None:
        for name in _PARTS:
            path = self.folder / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


class Lines:
    """`metrics.jsonl`: one line a report, for programs; TensorBoard beside it, for eyes.

    Args:
        folder: The run's folder.
        length: Bytes to keep of what is there: a resumed run writes the rest again.
        tensorboard: Whether to write the folder tensorboard too.
        position: The first position that is still to come.
    """

    def __init__(self, folder: Path, length: int, tensorboard: bool, position: int) -> None:
        self._path = folder / METRICS
        self._file = self._path.open("ab")
        self._file.truncate(length)
        self._board = _tensorboard(folder / "tensorboard", position) if tensorboard else None

    def write(self, line: Mapping[str, Any]) -> None:
        """Report something; numbers of it also go to TensorBoard."""
        self._file.write((json.dumps(line) + "\n").encode())
        self._file.flush()
        if self._board is not None:
            for name, value in line.items():
                if isinstance(value, float) and name != "share":
                    self._board.add_scalar(f"{line['kind']}/{name}", value, line["position"])

    def secured(self) -> int:
        """The length of what was written, once it is on the disk."""
        os.fsync(self._file.fileno())
        return self._path.stat().st_size

    def close(self) -> None:
        """Finish the files."""
        self._file.close()
        if self._board is not None:
            self._board.close()


def _tensorboard(folder: Path, position: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=position or None)
