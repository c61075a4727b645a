"""The dot interaction of rows that are read from their slots, both ways.

A lookup would write the rows beside each other, to be read from there twice. Here nothing is
written; the backward pass reads the same values, since rows are updated only after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from slipstream.gpu.kernels import dots
from slipstream.gpu.kernels.rows import Shape
from slipstream.tables.spec import Group, InSlots


def reads(weight: Tensor, group: Group) -> bool:
    """Whether a model on a GPU reads the rows of a group, all single, from their slots.

    Products in TF32 of rows stored in few bits would differ in their bits from those of vectors.
    """
    return (
        weight.is_cuda
        and weight.dtype != torch.float64
        and group.storage != "fp64"
        and (group.storage == "fp32" or not torch.backends.cuda.matmul.allow_tf32)
        and dots.holds(len(group.features), group.dim)
    )


def dot_interaction_of_rows(first: Tensor, vectors: Tensor, rows: InSlots) -> Tensor:
    """The same as `dot_interaction` of the vectors that a lookup of these rows returns.

    `vectors` `[B, count, dim]` collects the gradients of the rows, and is not read.
    """
    where = (rows.records, rows.slots, rows.span, list(rows.shape))
    return _forward(first.contiguous(), vectors, *where, dots.in_tf32(first))


@torch.library.custom_op("slipstream::dot_interaction_of_rows", mutates_args=())
def _forward(
    first: Tensor, vectors: Tensor, records: Tensor, slots: Tensor, span: Tensor,
    shape: Sequence[int], tf32: bool,
) -> Tensor:  # fmt: skip
    return dots.forward(first, _others(records, slots, span, shape), tf32)


@torch.library.custom_op("slipstream::dot_interaction_of_rows_backward", mutates_args=())
def _backward(
    gradient: Tensor, first: Tensor, records: Tensor, slots: Tensor, span: Tensor,
    shape: Sequence[int], tf32: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return dots.backward(gradient, first, _others(records, slots, span, shape), tf32)


@_forward.register_fake
def _(first: Tensor, vectors: Tensor, *_: object) -> Tensor:
    inputs, count, dim = vectors.shape
    return first.new_empty(inputs, dots.width(count, dim))


@_backward.register_fake
def _(
    gradient: Tensor, first: Tensor, records: Tensor, slots: Tensor, *others: Any
) -> tuple[Tensor, Tensor]:
    shape = Shape(*others[1])
    count, inputs = slots.shape
    vectors = first.new_empty(inputs, count, shape.dim, dtype=shape.dtype)
    return torch.empty_like(first), vectors


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    first, _, records, slots, span, ctx.shape, ctx.tf32 = inputs
    ctx.save_for_backward(first, records, slots, span)


def _gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    gradients = _backward(gradient.contiguous(), *ctx.saved_tensors, ctx.shape, ctx.tf32)
    return *gradients, None, None, None, None, None


_forward.register_autograd(_gradients, setup_context=_keep)


def _others(records: Tensor, slots: Tensor, span: Tensor, shape: Sequence[int]) -> dots.Others:
    row = Shape(*shape)
    return dots.Others((len(slots), row.dim), *row.views(records), slots, span, row)
