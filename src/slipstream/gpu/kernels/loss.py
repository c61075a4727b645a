"""The loss of a batch and its gradient in two kernels: one operation each would be sixteen."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 256  # a batch in many blocks: its backward pass waits for it


@torch.library.custom_op("slipstream::tell_loss", mutates_args={"told", "loss"})
def tell(
    logits: Tensor,
    labels: Tensor,
    weight: Tensor,
    offset: Tensor,
    span: Tensor,
    capacity: int,
    adds: bool,
    told: Tensor,
    loss: Tensor,
) -> Tensor:
    """The gradient of the weighted mean logloss of a batch, as far as some inputs make it.

    Always summed in the same order, by their number alone.

    Args:
        logits: Of the inputs, of any precision.
        labels: 0 or 1.
        weight: How much each counts; 0 in padding.
        offset: Added to each logit in the loss.
        span: int32, the first input that counts and the one after the last; others have a gradient
            of 0.
        capacity: Inputs of the whole batch, over which the mean is.
        adds: Whether there is a loss already of other inputs of the batch.
        told: The logits of inputs that count are written there.
        loss: Set, or added to.

    Returns:
        As many numbers as logits, of their precision.
    """
    logits = logits.contiguous()
    gradient = torch.empty_like(logits)
    blocks = triton.cdiv(len(labels), _BLOCK)
    sums = torch.empty(blocks, dtype=told.dtype, device=told.device)
    if blocks:
        _tell[(blocks,)](
            *(logits, labels, weight, offset, span, gradient, told, sums, len(labels), capacity),
            BLOCK=_BLOCK,
        )
    _sum[(1,)](sums, loss, blocks, capacity, ADDS=adds, BLOCK=triton.next_power_of_2(blocks + 1))
    return gradient


@triton.jit
def _tell(
    logits,
    labels,
    weight,
    offset,
    span,
    gradient,
    told,
    sums,
    inputs,
    capacity,
    BLOCK: tl.constexpr,
):
    number = told.dtype.element_ty
    block = tl.program_id(0)
    at = block * BLOCK + tl.arange(0, BLOCK)
    inside = at < inputs
    mine = inside & (at >= tl.load(span)) & (at < tl.load(span + 1))
    raw = tl.load(logits + at, mask=inside, other=0).to(number)
    logit = raw + tl.load(offset + at, mask=inside, other=0)
    label = tl.load(labels + at, mask=inside, other=0)
    heavy = tl.load(weight + at, mask=mine, other=0)
    small = tl.exp(-tl.abs(logit))  # never overflows
    positive = tl.where(logit < 0, small, 1.0) / (1 + small)
    each = tl.maximum(logit, 0.0) - logit * label + tl.log(1 + small)
    moves = tl.where(mine, heavy * (positive - label) / capacity, 0.0)
    tl.store(gradient + at, moves.to(gradient.dtype.element_ty), mask=inside)
    tl.store(told + at, raw, mask=mine)
    tl.store(sums + block, tl.sum(tl.where(mine, heavy * each, 0.0), 0))


@triton.jit
def _sum(sums, loss, blocks, capacity, ADDS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    made = tl.sum(tl.load(sums + at, mask=at < blocks, other=0), 0) / capacity
    if ADDS:
        made += tl.load(loss)
    tl.store(loss, made)
