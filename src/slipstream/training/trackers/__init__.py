"""The trackers: one file for each, and a line here. A tracker receives every line of metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from slipstream.errors import ConfigError, did_you_mean


class Tracker(Protocol):
    """Shows the metrics of a run somewhere else.

    It is opened with the run's folder, its configuration as a mapping, and the position at which
    the run begins or goes on.
    """

    def log(self, line: Mapping[str, Any]) -> None:
        """Take a line of `metrics.jsonl`, at once when it is written."""

    def close(self) -> None:
        """Finish what is under way: the run has ended, or has been stopped."""


OpenTracker = Callable[[Path, Mapping[str, Any], int], Tracker]
# Each tracker, or where it is, and the package that it needs: imported only when it is used.
TRACKERS: dict[str, tuple[str | OpenTracker, str]] = {
    "tensorboard": ("slipstream.training.trackers.tensorboard:TensorBoard", "tensorboard"),
    "mlflow": ("slipstream.training.trackers.mlflow:MLflow", "mlflow-skinny"),
    "wandb": ("slipstream.training.trackers.wandb:WandB", "wandb"),
}


def open_trackers(
    names: Sequence[str], folder: Path, config: Mapping[str, Any], position: int
) -> list[Tracker]:
    """Open the trackers of a run.

    Args:
        names: Which ones, of `TRACKERS`.
        folder: The run's folder.
        config: Its configuration.
        position: Where it begins or goes on.
    """
    return [_open(name, folder, config, position) for name in names]


def _open(name: str, folder: Path, config: Mapping[str, Any], position: int) -> Tracker:
    if name not in TRACKERS:
        raise ConfigError(f"There is no tracker {name!r}.{did_you_mean(name, TRACKERS)}")
    place, package = TRACKERS[name]
    try:
        if isinstance(place, str):
            module, _, attribute = place.partition(":")
            place = getattr(import_module(module), attribute)
        return place(folder, config, position)
    except ImportError as error:
        raise ConfigError(
            f"The tracker {name} cannot be used: {error}. Install it with `pip install {package}`, "
            f"or leave {name} out of log.trackers."
        ) from error


def figures_of(line: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of a line that a tracker plots, as names such as `training/auc` and values.

    Example:
        >>> list(figures_of({"kind": "training", "position": 64, "auc": 0.7, "loss": None}))
        [('training/auc', 0.7)]
    """
    for name, value in line.items():
        if isinstance(value, float) and name != "share":
            yield f"{line['kind']}/{name}", value
