"""A module of a user's own in the benchmark of a GPU: in the recorded step, and in a plain loop."""

from __future__ import annotations

import itertools
from contextlib import closing
from typing import Any

import torch
from gpu_ours import config_of
from gpu_watch import timed
from torch import Tensor, nn

from slipstream import CapturedStep, Dataset, EmbeddingTables, Loader, RowwiseAdagrad
from slipstream.order import InputOrder
from slipstream.pipeline.engine import weighted_loss


class Own(nn.Module):  # type: ignore[misc]
    """Three layers over dense values and all vectors: nothing of ours."""

    def __init__(self, dense: int, columns: int) -> None:
        super().__init__()
        sizes = (dense + 16 * columns, 512, 256)
        layers = [(nn.Linear(a, b), nn.ReLU()) for a, b in itertools.pairwise(sizes)]
        self.layers = nn.Sequential(*itertools.chain(*layers), nn.Linear(256, 1))

    def forward(self, dense: Tensor, vectors: dict[str, Tensor]) -> Tensor:
        """A logit for each input."""
        return self.layers(torch.cat([dense, *vectors.values()], dim=1)).squeeze(1)


def own(dataset: Dataset, one: dict[str, Any]) -> dict[str, Any]:
    """Samples a second of the module, as `way` says: recorded, or by hand."""
    schema, device = dataset.schema, one["device"]
    tables = EmbeddingTables.for_schema(schema, dim=16, optimizer=RowwiseAdagrad(lr=0.1))
    module = Own(len(schema.dense), len(schema.columns))
    if one["way"] == "recorded":
        said: list[str] = []
        step = CapturedStep(dataset, tables, module, config=config_of(one), on_message=said.append)
        steps = step.through()
        with closing(steps):
            return {**_timed(lambda: next(steps), one), "said": said}
    module = module.to(device)
    weights = torch.optim.Adagrad(module.parameters(), lr=0.01)
    order = InputOrder(len(dataset.train), epochs=1000)
    with Loader(dataset.train, one["batch"], order=order) as batches:

        def by_hand() -> None:
            batch = next(batches)
            vectors = {name: v.to(device) for name, v in tables(batch).items()}
            with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
                logits = module(batch.dense.to(device), vectors)
            on = batch.to(device)
            weighted_loss(logits.float(), on.labels, on.weights, None).backward()
            weights.step()
            weights.zero_grad()
            tables.step()

        return _timed(by_hand, one)


def _timed(step: Any, one: dict[str, Any]) -> dict[str, Any]:
    keys = {"warm": 2 * one["warm"], "seconds": one["seconds"], "watched": 0}
    return timed(step, one["batch"], one["device"], **keys)
