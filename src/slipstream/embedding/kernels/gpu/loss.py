"""The loss of a batch and its gradient in one kernel: one operation each would be sixteen."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 2048


@torch.library.custom_op("slipstream::tell_loss", mutates_args={"told", "loss"})
def tell(
    logits: Tensor,
    labels: Tensor,
    weight: Tensor,
    offset: Tensor,
    spans: Tensor,
    part: int,
    told: Tensor,
    loss: Tensor,
) -> Tensor:
    """The gradient of the weighted mean logloss of a part of a batch.

    Always summed in the same order, by the capacity of the batch alone.

    Args:
        logits: Of its inputs, of any precision.
        labels: 0 or 1.
        weight: How much each counts; 0 in padding.
        offset: Added to each logit in the loss.
        spans: int32: where each part begins, and the end of the last.
        part: Which one; what is not of it has a gradient of 0.
        told: The logits of the part are written there.
        loss: Set by the first part, and added to by the others.

    Returns:
        As many numbers as logits, of their precision.
    """
    logits = logits.contiguous()
    gradient = torch.empty_like(logits)
    _tell[(1,)](
        *(logits, labels, weight, offset, spans, gradient, told, loss, len(labels)),
        PART=part,
        BLOCKS=triton.cdiv(len(labels), _BLOCK),
        BLOCK=_BLOCK,
    )
    return gradient


@triton.jit
def _tell(
    logits,
    labels,
    weight,
    offset,
    spans,
    gradient,
    told,
    loss,
    capacity,
    PART: tl.constexpr,
    BLOCKS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    number = told.dtype.element_ty
    first, last = tl.load(spans + PART), tl.load(spans + PART + 1)
    total = tl.zeros((BLOCK,), number)
    for block in range(BLOCKS):
        at = block * BLOCK + tl.arange(0, BLOCK)
        inside = at < capacity
        mine = inside & (at >= first) & (at < last)
        raw = tl.load(logits + at, mask=inside, other=0).to(number)
        logit = raw + tl.load(offset + at, mask=inside, other=0)
        label = tl.load(labels + at, mask=inside, other=0)
        heavy = tl.load(weight + at, mask=mine, other=0)
        small = tl.exp(-tl.abs(logit))  # never overflows
        positive = tl.where(logit < 0, small, 1.0) / (1 + small)
        each = tl.maximum(logit, 0.0) - logit * label + tl.log(1 + small)
        total += tl.where(mine, heavy * each, 0.0)
        moves = tl.where(mine, heavy * (positive - label) / capacity, 0.0)
        tl.store(gradient + at, moves.to(gradient.dtype.element_ty), mask=inside)
        tl.store(told + at, raw, mask=mine)
    made = tl.sum(total, 0) / capacity
    if PART > 0:
        made += tl.load(loss)
    tl.store(loss, made)
