"""The step: a plan goes in, rows and weights have moved. It knows nothing else of the world."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from slipstream.embedding.tables import Embeddings
from slipstream.plan import Plan
from slipstream.training.dense import DensePart


class Stepped(NamedTuple):
    """What a step says of its batch: the loss, and the logits before anything moved."""

    loss: float
    logits: Tensor


class Engine:
    """Embedding tables and a dense part that are trained together.

    Args:
        tables: The embedding tables.
        dense: The dense part.
    """

    def __init__(self, tables: Embeddings, dense: DensePart) -> None:
        self.tables = tables
        self.dense = dense

    def forward(self, plan: Plan) -> Stepped:
        """Look up, predict, and collect the gradients of a batch; nothing moves yet."""
        self.tables.arrive(plan)
        self._embedded = self.tables.lookup(plan.groups)
        logits = self.dense.logits(plan.dense, self._embedded)
        loss = loss_of(logits, plan)
        loss.backward()
        return Stepped(float(loss.detach()), logits.detach())

    def move(self, plan: Plan, factor: float = 1.0) -> None:
        """Move rows and weights by the gradients of `forward`.

        Args:
            plan: The plan that was given to `forward`.
            factor: Of all learning rates.
        """
        self.tables.update(plan.groups, self._embedded, step=plan.step, factor=factor)
        self.tables.leave(plan)
        self.dense.step(factor)
        del self._embedded

    def predict(self, plan: Plan) -> Tensor:
        """The logits of a batch; nothing is kept for training."""
        with torch.no_grad():
            embedded = self.tables.lookup(plan.groups, gradients=False)
            return self.dense.logits(plan.dense, embedded, train=False)


def loss_of(logits: Tensor, plan: Plan) -> Tensor:
    """The weighted sum of the inputs' logloss over the batch's capacity, which is constant."""
    if plan.logit_offset is not None:
        logits = logits + plan.logit_offset
    losses = binary_cross_entropy_with_logits(logits, plan.labels.to(logits), reduction="none")
    return (losses * plan.weight.to(logits)).sum() / plan.capacity
