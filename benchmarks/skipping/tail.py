"""The AUC of a run on the examples that come next, at several moments: for data that drift.

Checkpoints over the last part of a run are each scored on the examples behind them, which that
model has not seen. The moments are the same for all runs, and so are the examples.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.skipping.truth import Array, expected_auc

from slipstream import Dataset
from slipstream.data.dataset import Part
from slipstream.training.evaluation import predictions
from slipstream.training.load_run import LoadedRun, open_run

MOMENTS = 9
EVERY = 0.05  # of the examples of a run
_MARGIN = 4  # batches: a step ends a little after the moment that it passes


def tail_keys(examples: int) -> dict[str, Any]:
    """The keys of a run that saves a model at each moment."""
    return {"checkpoint.every_inputs": max(1, round(EVERY * examples))}


def auc_of_tail(run: Path, dataset: Dataset, chances: Array | None) -> float:
    """The mean AUC over the last moments of a run; its checkpoints are deleted.

    Args:
        run: The folder of a run over the examples as they come.
        dataset: The data set.
        chances: The true chance of every example of all parts; None scores against labels.
    """
    parts = (dataset.train, dataset.validation, dataset.evaluation)
    whole = Part("all", dataset.schema, [shard for part in parts for shard in part.shards])
    scores = []
    for loaded in _from_the_last(run, dataset):
        every = loaded.config.checkpoint.every_inputs
        assert every is not None, "tail_keys sets it"
        moment = loaded.position // every * every
        margin = min(every, _MARGIN * loaded.config.batch_size)
        start = max(loaded.position, moment + margin)
        stop = min(len(whole), start + every)
        examples = Part("next", dataset.schema, whole.runs(start, stop))
        logits, labels = predicted(loaded, examples)
        scores.append(expected_auc(logits, labels if chances is None else chances[start:stop]))
    return float(np.mean(scores))


def predicted(loaded: LoadedRun, part: Part) -> tuple[Array, Array]:
    """The logits and the labels of the examples of a part."""
    logits, labels = [], []
    for batch, of_batch in predictions(loaded.engine, loaded.placement, part, 8192):
        logits.append(of_batch[: batch.n_valid].float())
        labels.append(batch.labels[: batch.n_valid].float())
    return torch.cat(logits).numpy(), torch.cat(labels).numpy()


def _from_the_last(run: Path, dataset: Dataset) -> Iterator[LoadedRun]:
    """The model at each checkpoint of a run, backwards."""
    while True:
        yield open_run(run, dataset)
        *others, last = sorted((run / "checkpoints").iterdir())
        if not others:
            return
        shutil.rmtree(last)
