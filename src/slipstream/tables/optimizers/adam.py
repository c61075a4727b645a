"""Adam on the rows of a batch."""

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
    rate, eps = work.options[0], work.options[1]
    new_mean, new_square = work.options[2], work.options[3]
    means, squares, dim = work.slots[0], work.slots[1], work.gradient.shape[1]
    for begin in range(first, last, work.block):
        rows, row_at, gradient, state, state_at = load_block(work, begin, last)
        for j in range(len(row_at)):
            row, own = row_at[j], state_at[j]
            for d in range(dim):
                square = state[own, squares + d]
                square += (gradient[j, d] * gradient[j, d] - square) * new_square
                state[own, squares + d] = square
                mean = state[own, means + d]
                mean += (gradient[j, d] - mean) * new_mean
                state[own, means + d] = mean
                gradient[j, d] = rate * (mean / (np.sqrt(square) + eps))
            for d in range(dim):
                rows[row, d] -= gradient[j, d]
        store_block(work, begin, rows)


@dataclass(frozen=True)
class Adam(RowOptimizer):
    """Adam on the rows of a batch, the others stay as they are (PyTorch's SparseAdam).

    Weight decay has no agreed meaning for rows that are touched now and then: there is none.

    Args:
        lr: Learning rate.
        beta1: How much of the mean gradient is kept from step to step.
        beta2: How much of the mean square is kept from step to step.
        eps: Keeps the division from zero.
    """

    lr: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    name = "adam"
    below_one = ("beta1", "beta2")
    slots: ClassVar = {"mean": "element", "square": "element"}
    kernel = staticmethod(_update_rows)

    def update(self, rows: Tensor, state: State, gradient: Tensor, lr: float, step: int) -> Tensor:
        """The rows after one step."""
        mean, square = state["mean"], state["square"]
        mean += (gradient - mean) * (1 - self.beta1)
        square += (gradient * gradient - square) * (1 - self.beta2)
        return rows - self._rate(lr, step) * (mean / (square.sqrt() + self.eps))

    def kernel_options(self, lr: float, step: int) -> tuple[float, ...]:
        """The corrected learning rate, `eps`, and the shares of what is new."""
        return self._rate(lr, step), self.eps, 1 - self.beta1, 1 - self.beta2

    def _rate(self, lr: float, step: int) -> float:
        """The learning rate with the corrections for a young mean and a young square."""
        return lr * (1 - self.beta2**step) ** 0.5 / (1 - self.beta1**step)
