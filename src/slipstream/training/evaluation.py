"""Scores a part of the data set, or some of its examples, with the present weights."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing

import numpy as np
import torch

from slipstream.arrays import Array
from slipstream.data.batch import Batch, BatchReader
from slipstream.data.dataset import Part
from slipstream.data.loader import Loader
from slipstream.order import Cut
from slipstream.pipeline.engine import Engine, Scored
from slipstream.tables.plan import Placement, Planner
from slipstream.training.diverged import diverged_at
from slipstream.training.metrics import Metrics, Mode, Scores

RATE_INPUTS = 8192
"""Inputs of the validation part whose loss sets the rate of hot and cold batches: enough to
distinguish losses, and few enough to score them at the end of each segment."""
EXACT_BYTES = 1 << 30
"""Memory for the scores of an exact AUC; larger parts have a bounded one."""
_SCORE_BYTES = 4  # a float32 for each input


def evaluate(
    engine: Engine,
    placement: Placement,
    part: Part,
    batch_size: int,
    mode: Mode = "exact",
    on_batch: Callable[[int], None] = lambda _: None,
) -> Scores:
    """Score all examples of a part; calls `on_batch` with the number of examples of each batch."""
    metrics = Metrics(mode)
    for batch, logits in predictions(engine, placement, part, batch_size):
        n = batch.n_valid
        if not bool(torch.isfinite(logits[:n]).all()):
            raise diverged_at(part.name, batch, logits)
        metrics.add(logits[:n], batch.labels[:n], batch.weights[:n])
        on_batch(n)
    return metrics.result()


def auc_mode(part: Part) -> Mode:
    """Whether the AUC of a part is exact: its scores then take at most 1 GiB."""
    return "exact" if _SCORE_BYTES * len(part) <= EXACT_BYTES else "bounded"


def first_inputs(part: Part, count: int) -> Part:
    """The first examples of a part, at most so many."""
    return Part(part.name, part.schema, part.runs(0, min(count, len(part))))


def predictions(
    engine: Engine, placement: Placement, part: Part, batch_size: int
) -> Iterator[Scored]:
    """The batches of a part, in order, with the logits of their examples."""
    with Loader(part, batch_size) as loader:
        yield from _scored(engine, placement, loader)


class ExampleScorer:
    """Scores any examples of a part, `capacity` of them at once."""

    def __init__(self, engine: Engine, placement: Placement, part: Part, capacity: int) -> None:
        self._engine, self._placement, self._capacity = engine, placement, capacity
        self._reader = BatchReader(part, capacity)

    def __call__(self, numbers: Array) -> tuple[Array, Array]:
        """The logits of the examples of these numbers, and their labels."""
        logits, labels = [np.zeros(0)], [np.zeros(0)]
        for batch, of_batch in _scored(
            self._engine, self._placement, self._read(numbers), few=True
        ):
            logits.append(of_batch[: batch.n_valid].double().numpy())
            labels.append(batch.labels[: batch.n_valid].numpy())
        return np.concatenate(logits), np.concatenate(labels)

    def _read(self, numbers: Array) -> Iterator[Batch]:
        for first in range(0, len(numbers), self._capacity):
            yield from self._reader.read([Cut(numbers[first : first + self._capacity], 0)])


def _scored(
    engine: Engine, placement: Placement, batches: Iterable[Batch], *, few: bool = False
) -> Generator[Scored, None, None]:
    """Batches with the logits of their examples; `few` as in `Engine.scores`."""
    engine.dense.model.eval()
    try:
        with closing(engine.scores(batches, Planner(placement, update=False), few=few)) as scores:
            yield from scores
    finally:
        engine.dense.model.train()
