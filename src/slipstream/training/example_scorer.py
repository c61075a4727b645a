"""The logits of any examples with the model as it is: scored, not trained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np

from slipstream.arrays import Array
from slipstream.data.batch import Batch, BatchReader
from slipstream.data.dataset import Part
from slipstream.order import Cut
from slipstream.pipeline.engine import Engine
from slipstream.tables.plan import Placement, Planner


class ExampleScorer:
    """Scores examples of a part.

    Args:
        engine: Rows and dense part.
        placement: Finds the rows of a batch in the slow store.
        part: Where the examples are.
        capacity: Examples that are scored at once.
    """

    def __init__(self, engine: Engine, placement: Placement, part: Part, capacity: int) -> None:
        self._engine, self._capacity = engine, capacity
        self._planner = Planner(placement, update=False)
        self._reader = BatchReader(part, capacity)

    def __call__(self, numbers: Array) -> tuple[Array, Array]:
        """The logits of the examples of these numbers, and their labels."""
        logits, labels = [np.zeros(0)], [np.zeros(0)]
        self._engine.dense.model.eval()
        try:
            batches = self._batches(numbers)
            with closing(self._engine.scores(batches, self._planner, few=True)) as scores:
                for batch, of_batch in scores:
                    logits.append(of_batch[: batch.n_valid].double().numpy())
                    labels.append(batch.labels[: batch.n_valid].numpy())
        finally:
            self._engine.dense.model.train()
        return np.concatenate(logits), np.concatenate(labels)

    def _batches(self, numbers: Array) -> Iterator[Batch]:
        for first in range(0, len(numbers), self._capacity):
            yield from self._reader.read([Cut(numbers[first : first + self._capacity], 0)])
