"""Scores a part of a data set with the newest checkpoint of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slipstream.data.dataset import Dataset
from slipstream.errors import ConfigError, did_you_mean
from slipstream.training.evaluation import auc_mode, evaluate
from slipstream.training.load_run import open_run


def evaluate_run(
    run: str | Path,
    dataset: Dataset,
    part: str = "evaluation",
    batch_size: int | None = None,
) -> dict[str, Any]:
    """The metrics of a run's predictions for a part of a data set.

    With the data set and the batch size of the run, they equal those in its summary.

    Args:
        run: The folder of a run that has ended, is still training, or was killed.
        dataset: The run's data set, or one prepared with its dictionary.
        part: evaluation, validation or train.
        batch_size: Examples to predict at once. Default: as in the run.

    Returns:
        The metrics by name, with run, dataset, part, position, ended, status and warnings.
    """
    if part not in dataset.parts:
        raise ConfigError(f"There is no part {part!r}.{did_you_mean(part, dataset.parts)}")
    if not len(dataset.parts[part]):
        raise ConfigError(f"The part {part!r} of {dataset.folder} has no examples to score.")
    if batch_size is not None and batch_size < 1:
        raise ConfigError(f"batch_size is {batch_size}; it must be at least 1.")
    loaded = open_run(run, dataset)
    config = loaded.config
    size = batch_size or config.batch_size
    inputs = dataset.parts[part]
    scores = evaluate(loaded.engine, loaded.placement, inputs, size, auc_mode(inputs))
    oracle = (dataset.manifest.oracle or {}).get(part)
    return {
        "run": str(run),
        "dataset": str(dataset.folder) if dataset.folder else "in memory",
        "part": part,
        "position": loaded.position,
        "ended": loaded.ended,
        **scores,
        "oracle_auc": oracle["auc"] if oracle else None,
        "status": loaded.status,
        "warnings": list(loaded.checkpoint.warnings),
    }
