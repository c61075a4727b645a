"""The trackers: one file for each, and a line here. A tracker receives every line of metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from slipstream.errors import ConfigError


class Tracker(Protocol):
    """Shows the metrics of a run somewhere else.

    It is opened with the run's folder, its configuration as a mapping, and the position at which
    the run begins or goes on. The class may have two attributes, both tuples:

    - `files`: the files and folders that it writes into the run's folder, so that `--force`
      removes them with the run.
    - `needs`: pairs of a module that it imports and the package to install for it.
    """

    def log(self, line: Mapping[str, Any]) -> None:
        """Take a line of `metrics.jsonl`, at once when it is written."""

    def close(self) -> None:
        """Finish what is under way: the run has ended, or has been stopped."""


OpenTracker = Callable[[Path, Mapping[str, Any], int], Tracker]
# Each tracker, or the module and class: imported only when it is used.
TRACKERS: dict[str, str | OpenTracker] = {
    "tensorboard": "slipstream.training.trackers.tensorboard:TensorBoard",
    "mlflow": "slipstream.training.trackers.mlflow:MLflow",
    "wandb": "slipstream.training.trackers.wandb:WandB",
}


def tracker(name: str) -> OpenTracker:
    """The tracker of that name: its class, or another function that opens it."""
    place = TRACKERS[name]
    if isinstance(place, str):
        module, _, attribute = place.partition(":")
        place = cast("OpenTracker", getattr(import_module(module), attribute))
    return place


def check_trackers(names: Sequence[str]) -> None:
    """Raise an error if a package is missing that one of these trackers needs."""
    for name in names:
        for module, package in getattr(tracker(name), "needs", ()):
            try:
                import_module(module)
            except ImportError as error:
                raise ConfigError(
                    f"The tracker {name} cannot be used: {error}. Install it with `pip install "
                    f"{package}`, or leave {name} out of log.trackers."
                ) from error


def tracker_files() -> tuple[str, ...]:
    """The files and folders that trackers write into the folder of a run."""
    return tuple(file for name in TRACKERS for file in getattr(tracker(name), "files", ()))


def figures_of(line: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of a line that a tracker plots, as names such as `training/auc` and values.

    Example:
        >>> list(figures_of({"kind": "training", "position": 64, "auc": 0.7, "loss": None}))
        [('training/auc', 0.7)]
    """
    for name, value in line.items():
        if isinstance(value, float) and name != "share":
            yield f"{line['kind']}/{name}", value
