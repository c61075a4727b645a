"""Weights & Biases: a W&B run in the project `slipstream`, or in that of WANDB_PROJECT."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipstream.training.trackers import figures_of


class WandB:
    """Logs to W&B. A resumed run goes on with its W&B run."""

    needs = (("wandb", "wandb"),)

    def __init__(self, folder: Path, config: Mapping[str, Any], position: int) -> None:
        import wandb

        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "slipstream"),
            id=hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16],
            name=folder.name,
            config=dict(config),
            resume="allow" if position else None,
        )

    def log(self, line: Mapping[str, Any]) -> None:
        """Log the numbers of a line; several lines can have one position."""
        self._run.log({"position": line["position"], **dict(figures_of(line))})

    def close(self) -> None:
        """Send what is left, and end the W&B run."""
        self._run.finish()
