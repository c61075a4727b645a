"""TensorBoard: the folder `tensorboard` of the run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipstream.training.trackers import figures_of


class TensorBoard:
    """Writes event files."""

    files = ("tensorboard",)
    needs = (("torch.utils.tensorboard", "tensorboard"),)

    def __init__(self, folder: Path, config: Mapping[str, Any], position: int) -> None:  # noqa: ARG002
        from torch.utils.tensorboard import SummaryWriter

        folder = folder / "tensorboard"
        # A run that was killed has shown more than its checkpoint holds: not twice.
        purge = position + 1 if folder.is_dir() else None
        self._writer = SummaryWriter(str(folder), purge_step=purge)

    def log(self, line: Mapping[str, Any]) -> None:
        """Add the numbers of a line."""
        for name, value in figures_of(line):
            self._writer.add_scalar(name, value, line["position"])
        self._writer.flush()

    def close(self) -> None:
        """Finish the files."""
        self._writer.close()
