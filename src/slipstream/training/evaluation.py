"""Scores a part of the data set with the model as it is now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import torch
from torch import Tensor

from slipstream.data.batch import Batch
from slipstream.data.dataset import Part
from slipstream.data.loader import Loader
from slipstream.pipeline.engine import Engine
from slipstream.tables.plan import Placement, Planner
from slipstream.training.diverged import diverged_at
from slipstream.training.metrics import Metrics, Mode, Scores

RATE_INPUTS = 8192
"""Inputs of the validation part whose loss sets the rate of hot and cold batches: enough to tell
a better loss from a worse one, few enough to be scored at the end of each segment."""
EXACT_BYTES = 1 << 30
"""Memory for the scores of an exact AUC; larger parts have a bounded one."""
_SCORE_BYTES = 4  # a float32 for each input


def evaluate(
    engine: Engine,
    placement: Placement,
    part: Part,
    batch_size: int,
    mode: Mode = "exact",
    each: Callable[[int], None] = lambda _: None,
) -> Scores:
    """Score the predictions for all examples of a part.

    Args:
        engine: Rows and dense part.
        placement: Finds the rows of a batch.
        part: The inputs.
        batch_size: How many are predicted at once.
        mode: How the AUC is computed.
        each: Called after each batch with its number of examples; if it raises, evaluation ends.
    """
    metrics = Metrics(mode)
    for batch, logits in predictions(engine, placement, part, batch_size):
        n = batch.n_valid
        if not bool(torch.isfinite(logits[:n]).all()):
            raise diverged_at(part.name, batch, logits)
        metrics.add(logits[:n], batch.labels[:n], batch.weights[:n])
        each(n)
    return metrics.result()


def auc_mode(part: Part) -> Mode:
    """Whether the AUC of a part is exact: its scores then take at most 1 GiB."""
    return "exact" if _SCORE_BYTES * len(part) <= EXACT_BYTES else "bounded"


def first_inputs(part: Part, count: int) -> Part:
    """The first inputs of a part, at most so many."""
    return Part(part.name, part.schema, part.runs(0, min(count, len(part))))


def predictions(
    engine: Engine, placement: Placement, part: Part, batch_size: int
) -> Iterator[tuple[Batch, Tensor]]:
    """The batches of a part, in order, with the logits of their inputs."""
    planner = Planner(placement, update=False)
    engine.dense.model.eval()
    try:
        with Loader(part, batch_size) as loader, closing(engine.scores(loader, planner)) as scores:
            yield from scores
    finally:
        engine.dense.model.train()
