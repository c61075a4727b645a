"""A run scored on what comes next, at several moments: what a model is worth where things drift.

Checkpoints over the last part of a run are each scored on the inputs that follow, which that model
has not seen. The moments are the same for all runs, and so are the inputs.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.skipping.truth import Array, Expected, expected, oracle

from slipstream import Dataset
from slipstream.data.dataset import Part
from slipstream.training.evaluation import predictions
from slipstream.training.load_run import LoadedRun, open_run

POINTS = 9
EVERY = 0.05  # of the inputs of a run
_MARGIN = 4  # batches: a step ends a little after the moment that it passes


def tail_keys(inputs: int) -> dict[str, Any]:
    """What a run is to save, so that it can be scored."""
    return {"checkpoint.every_inputs": max(1, round(EVERY * inputs))}


def scores_of_tail(run: Path, dataset: Dataset, chances: Array | None) -> dict[str, float]:
    """Means over the last moments of a run; its checkpoints are used up.

    Args:
        run: The folder of a run over the inputs as they come.
        dataset: What it was trained on.
        chances: The true chance of every input of all parts; None scores against labels.
    """
    parts = (dataset.train, dataset.validation, dataset.evaluation)
    whole = Part("coming", dataset.schema, [shard for one in parts for shard in one.shards])
    found, best = [], []
    for restored in _from_the_last(run, dataset):
        every = restored.config.checkpoint.every_inputs
        assert every is not None, "tail_keys says so"
        moment = restored.position // every * every
        margin = min(every, _MARGIN * restored.config.batch_size)
        start = max(restored.position, moment + margin)
        stop = min(len(whole), start + every)
        inputs = Part("coming", dataset.schema, whole.runs(start, stop))
        logits, labels = scored(restored, inputs)
        truth = labels if chances is None else chances[start:stop]
        found.append(expected(logits, truth))
        if chances is not None:
            best.append(oracle(truth).auc)
    means = {name: _mean([getattr(one, name) for one in found]) for name in Expected._fields}
    return means | ({"oracle_auc": _mean(best)} if best else {})


def scored(restored: LoadedRun, part: Part) -> tuple[Array, Array]:
    """The logits and the labels of a part's inputs."""
    made = predictions(restored.engine, restored.placement, part, 8192)
    logits, labels = [], []
    for batch, found in made:
        logits.append(found[: batch.n_valid].float())
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


def _mean(values: list[float]) -> float:
    return float(np.mean(values))
