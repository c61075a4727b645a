"""Adagrad: each element has its own rate, by the squares of its past gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from slipstream.compiled import compiled
from slipstream.tables.kernels.rows import load_block, store_block
from slipstream.tables.optimizers.optimizer import RowOptimizer, State

if TYPE_CHECKING:
    from torch import Tensor


@compiled
def _update_rows(work, first, last):
    lr, eps = work.options[0], work.options[1]
    sums, dim = work.slots[0], work.gradient.shape[1]
    for begin in range(first, last, work.block):
        rows, row_at, gradient, state, state_at = load_block(work, begin, last)
        for j in range(len(row_at)):
            row, own = row_at[j], state_at[j]
            for d in range(dim):
                total = state[own, sums + d] + gradient[j, d] * gradient[j, d]
                state[own, sums + d] = total
                gradient[j, d] = lr * gradient[j, d] / (np.sqrt(total) + eps)
            for d in range(dim):
                rows[row, d] -= gradient[j, d]
        store_block(work, begin, rows)


@dataclass(frozen=True)
class Adagrad(RowOptimizer):
    """Each element has its own rate, by the squares of its past gradients (as in PyTorch).

    Args:
        lr: Learning rate.
        eps: Keeps the division from zero.
        weight_decay: Adds `weight_decay * row` to the gradient of rows that are touched.
    """

    lr: float = 0.1
    eps: float = 1e-10
    weight_decay: float = 0.0
    name = "adagrad"
    slots: ClassVar = {"sum": "element"}
    kernel = staticmethod(_update_rows)

    def update(self, rows: Tensor, state: State, gradient: Tensor, lr: float, step: int) -> Tensor:
        """The rows after one step."""
        state["sum"] += gradient * gradient
        return rows - lr * gradient / (state["sum"].sqrt() + self.eps)
