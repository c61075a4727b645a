"""Plain stochastic gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slipstream.compiled import compiled
from slipstream.tables.kernels.rows import load_block, store_block
from slipstream.tables.optimizers.optimizer import RowOptimizer, State

if TYPE_CHECKING:
    from torch import Tensor


@compiled
def _update_rows(work, first, last):
    lr, dim = work.options[0], work.gradient.shape[1]
    for begin in range(first, last, work.block):
        rows, row_at, gradient, _, _ = load_block(work, begin, last)
        for j in range(len(row_at)):
            row = row_at[j]
            for d in range(dim):
                rows[row, d] -= lr * gradient[j, d]
        store_block(work, begin, rows)


@dataclass(frozen=True)
class Sgd(RowOptimizer):
    """`row -= lr * gradient`.

    Args:
        lr: Learning rate.
        weight_decay: Adds `weight_decay * row` to the gradient of rows that are touched.
    """

    lr: float = 0.1
    weight_decay: float = 0.0
    name = "sgd"
    kernel = staticmethod(_update_rows)

    def update(self, rows: Tensor, state: State, gradient: Tensor, lr: float, step: int) -> Tensor:
        """The rows after one step."""
        return rows - lr * gradient
