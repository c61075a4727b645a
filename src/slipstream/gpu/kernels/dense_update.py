"""The weights of a dense part moved at once: they lie in one row, and so does what moves them."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

NUMBER = {"sgd": 0, "adagrad": 1, "adam": 3}
_ADAGRAD, _ADAM = tl.constexpr(1), tl.constexpr(3)
_BLOCK = 1024


@torch.library.custom_op("slipstream::update_weights", mutates_args={"weights", "first", "second"})
def update_weights(
    weights: Tensor, gradient: Tensor, first: Tensor, second: Tensor, parameters: Tensor,
    optimizer: int,
) -> None:  # fmt: skip
    """Update weights by their gradient, as PyTorch's optimizers do.

    `first` is Adagrad's sum of squares or Adam's mean, and `second` is Adam's mean square.
    `parameters` (float64) holds the rate, eps and weight decay; for Adam also the correction of the
    root of the mean square, and the shares of a new gradient in its mean and in its mean square.
    """
    if len(weights):
        _update_weights[(triton.cdiv(len(weights), _BLOCK),)](
            weights, gradient, first, second, parameters, len(weights), OPTIMIZER=optimizer,
            IS_DOUBLE=weights.dtype == torch.float64, BLOCK=_BLOCK,
        )  # fmt: skip


@triton.jit
def _update_weights(
    weights, gradient, first, second, parameters, count, OPTIMIZER: tl.constexpr,
    IS_DOUBLE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    number = weights.dtype.element_ty
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    weight = tl.load(weights + at, mask=mask, other=0)
    rate = tl.load(parameters).to(number)
    eps = tl.load(parameters + 1).to(number)
    g = tl.load(gradient + at, mask=mask, other=0) + tl.load(parameters + 2).to(number) * weight
    if OPTIMIZER == _ADAGRAD:
        total = tl.load(first + at, mask=mask, other=0) + g * g
        tl.store(first + at, total, mask=mask)
        weight -= rate * _over(g, total, 1.0, eps, IS_DOUBLE)
    elif OPTIMIZER == _ADAM:
        mean = tl.load(first + at, mask=mask, other=0)
        square = tl.load(second + at, mask=mask, other=0)
        mean += (g - mean) * tl.load(parameters + 4).to(number)
        square += (g * g - square) * tl.load(parameters + 5).to(number)
        tl.store(first + at, mean, mask=mask)
        tl.store(second + at, square, mask=mask)
        weight -= rate * _over(mean, square, tl.load(parameters + 3).to(number), eps, IS_DOUBLE)
    else:
        weight -= rate * g
    tl.store(weights + at, weight, mask=mask)


@triton.jit
def _over(value, square, correction, eps, IS_DOUBLE: tl.constexpr):
    """The value over the corrected root of a square and eps."""
    if IS_DOUBLE:
        quotient = value / (tl.sqrt(square) / correction + eps)
    else:
        quotient = tl.div_rn(value, tl.sqrt_rn(square) / correction + eps)
    return quotient
