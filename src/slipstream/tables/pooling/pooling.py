"""What every pooling is: a function from the rows of a list to one vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Pool = Callable[[Tensor, Tensor], Tensor]
Divisor = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Pooling:
    """How the rows of a list become one vector. An empty list always gives zeros.

    Args:
        pool: From rows `[lists, steps, dim]` and the bool `[lists, steps]` that tells rows from
            padding to vectors `[lists, dim]`. Padding is zeros, each list has at least one row,
            and autograd must be able to differentiate it.
        is_sum: Whether it is the sum of the rows, divided or not: a fast kernel then serves it, as
            all rows of a list have the same gradient.
        divisor: What a sum is divided by, from the lengths of lists, all at least 1.
    """

    pool: Pool
    is_sum: bool = False
    divisor: Divisor | None = None

    def __call__(self, rows: Tensor, present: Tensor) -> Tensor:
        """The vectors of padded lists; some of the lists may be empty."""
        some = present.any(1)
        first = torch.arange(present.shape[1], device=present.device) == 0
        vectors = self.pool(rows, present | (first & ~some.unsqueeze(1)))
        return vectors.masked_fill(~some.unsqueeze(1), 0.0)


def divided_sum(divisor: Divisor | None = None) -> Pooling:
    """The sum of the rows, divided by a function of how many they are."""

    def pool(rows: Tensor, present: Tensor) -> Tensor:
        total = rows.sum(1)
        return total if divisor is None else total / divisor(present.sum(1, keepdim=True))

    return Pooling(pool, True, divisor)


def pool_lists(pooling: Pooling, rows: Tensor, offsets: Tensor) -> Tensor:
    """The vector of each list `rows[offsets[i]:offsets[i + 1]]`.

    Example:
        >>> rows = torch.tensor([[1.0, 5.0], [2.0, 3.0]])
        >>> pool_lists(divided_sum(), rows, torch.tensor([0, 2, 2]))
        tensor([[3., 8.],
                [0., 0.]])
    """
    present = _present(offsets)
    return pooling(_padded(rows, present), present)


def row_gradients(pooling: Pooling, rows: Tensor, offsets: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of each row of all lists, from that of the lists' vectors."""
    present = _present(offsets)
    with torch.enable_grad():
        padded = _padded(rows, present).requires_grad_()
        (gradients,) = torch.autograd.grad(pooling(padded, present), padded, gradient)
    return gradients[present]


def _present(offsets: Tensor) -> Tensor:
    lengths = offsets.diff()
    longest = max(1, int(lengths.max())) if len(lengths) else 1
    return torch.arange(longest) < lengths.unsqueeze(1)


def _padded(rows: Tensor, present: Tensor) -> Tensor:
    padded = rows.new_zeros(*present.shape, rows.shape[1])
    padded[present] = rows
    return padded
