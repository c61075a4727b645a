"""The loss of a batch and its gradient in two kernels: one operation each would be sixteen."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 256  # a batch in many blocks: its backward pass waits for it


@torch.library.custom_op("slipstream::loss_and_grad", mutates_args={"logits_out", "loss"})
def loss_and_grad(
    logits: Tensor, labels: Tensor, weight: Tensor, offset: Tensor, span: Tensor, capacity: int,
    adds: bool, logits_out: Tensor, loss: Tensor,
) -> Tensor:  # fmt: skip
    """The gradient of the weighted mean logloss of a batch, for the examples in `span`.

    Sums are always in the same order. `weight` is 0 in padding, and `offset` is added to each logit
    in the loss. The mean is over `capacity` examples; those outside of `span` have a gradient of 0.
    The logits of examples in `span` are copied to `logits_out`. The loss is set, or added to if
    `adds`. The gradient has the type of the logits.
    """
    logits = logits.contiguous()
    gradient = torch.empty_like(logits)
    blocks = triton.cdiv(len(labels), _BLOCK)
    sums = torch.empty(blocks, dtype=logits_out.dtype, device=logits_out.device)
    if blocks:
        _loss_and_grad[(blocks,)](
            logits, labels, weight, offset, span, gradient, logits_out, sums, len(labels), capacity,
            BLOCK=_BLOCK,
        )  # fmt: skip
    _sum[(1,)](sums, loss, blocks, capacity, ADDS=adds, BLOCK=triton.next_power_of_2(blocks + 1))
    return gradient


@triton.jit
def _loss_and_grad(
    logits, labels, weight, offset, span, gradient, logits_out, sums, inputs, capacity,
    BLOCK: tl.constexpr,
):  # fmt: skip
    number = logits_out.dtype.element_ty
    block = tl.program_id(0)
    at = block * BLOCK + tl.arange(0, BLOCK)
    inside = at < inputs
    counts = inside & (at >= tl.load(span)) & (at < tl.load(span + 1))
    raw = tl.load(logits + at, mask=inside, other=0).to(number)
    logit = raw + tl.load(offset + at, mask=inside, other=0)
    label = tl.load(labels + at, mask=inside, other=0)
    heavy = tl.load(weight + at, mask=counts, other=0)
    small = tl.exp(-tl.abs(logit))  # never overflows
    positive = tl.where(logit < 0, small, 1.0) / (1 + small)
    each = tl.maximum(logit, 0.0) - logit * label + tl.log(1 + small)
    moves = tl.where(counts, heavy * (positive - label) / capacity, 0.0)
    tl.store(gradient + at, moves.to(gradient.dtype.element_ty), mask=inside)
    tl.store(logits_out + at, raw, mask=counts)
    tl.store(sums + block, tl.sum(tl.where(counts, heavy * each, 0.0), 0))


@triton.jit
def _sum(sums, loss, blocks, capacity, ADDS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.sum(tl.load(sums + at, mask=at < blocks, other=0), 0) / capacity
    if ADDS:
        total += tl.load(loss)
    tl.store(loss, total)
