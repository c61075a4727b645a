"""Row-wise Adagrad: one rate for the whole row, by the mean square of its past gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from slipstream.compiled import compiled
from slipstream.tables.kernels.rows import load_block, store_block
from slipstream.tables.optimizers.adagrad import Adagrad
from slipstream.tables.optimizers.optimizer import State

if TYPE_CHECKING:
    from torch import Tensor


@compiled
def _update_rows(work, first, last):
    lr, eps = work.options[0], work.options[1]
    sums, dim = work.slots[0], work.gradient.shape[1]
    whole = dim - dim % 4
    for begin in range(first, last, work.block):
        rows, row_at, gradient, state, state_at = load_block(work, begin, last)
        for j in range(len(row_at)):
            row, own, g = row_at[j], state_at[j], gradient[j]
            # Four sums side by side: a single one would wait for each addition.
            a = b = c = e = gradient.dtype.type(0)
            for d in range(0, whole, 4):
                a += g[d] * g[d]
                b += g[d + 1] * g[d + 1]
                c += g[d + 2] * g[d + 2]
                e += g[d + 3] * g[d + 3]
            for d in range(whole, dim):
                a += g[d] * g[d]
            total = state[own, sums] + ((a + b) + (c + e)) / gradient.dtype.type(dim)
            state[own, sums] = total
            rate = lr / (np.sqrt(total) + eps)
            for d in range(dim):
                rows[row, d] -= rate * g[d]
        store_block(work, begin, rows)


@dataclass(frozen=True)
class RowwiseAdagrad(Adagrad):
    """One rate for the whole row, by the mean square of its past gradients (as in FBGEMM).

    It has the options of `Adagrad`: `lr`, `eps` and `weight_decay`.
    """

    eps: float = 1e-8
    name = "rowwise_adagrad"
    slots: ClassVar = {"sum": "row"}
    kernel = staticmethod(_update_rows)

    def update(self, rows: Tensor, state: State, gradient: Tensor, lr: float, step: int) -> Tensor:
        """The rows after one step."""
        state["sum"] += (gradient * gradient).mean(dim=1, keepdim=True)
        return rows - (lr / (state["sum"].sqrt() + self.eps)) * gradient
