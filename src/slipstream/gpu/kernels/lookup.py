"""Rows looked up in the fast tier: single ids, pooled lists, and sequences step by step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from slipstream.gpu.kernels.rows import Shape, read, tile

_ELEMENTS = 1024


@torch.library.custom_op("slipstream::look_up_singles", mutates_args={"vectors"})
def singles(
    records: Tensor, slots: Tensor, places: Tensor, span: Tensor, vectors: Tensor,
    shape: Sequence[int],
) -> None:  # fmt: skip
    """Copy the rows of single features to their places in `vectors` `[capacity, features, dim]`.

    `slots` is `[single features, capacity]`, perhaps of a wider tensor; slot -1 gives zeros.
    `places` are the places of the features in their group. Examples outside of `span`, from its
    first up to its second number, get zeros.
    """
    row = Shape(*shape)
    count, capacity = slots.shape
    inputs, columns = tile(row.dim, _ELEMENTS)
    if slots.numel():
        _singles[(triton.cdiv(capacity, inputs), count)](
            *row.views(records), slots, places, span, vectors, capacity, slots.stride(0),
            vectors.shape[1], SHAPE=tuple(row), INPUTS=inputs, COLUMNS=columns,
        )  # fmt: skip


@torch.library.custom_op("slipstream::look_up_pooled", mutates_args={"vectors"})
def pooled(
    records: Tensor, slots: Tensor, offsets: Tensor, span: Tensor, vectors: Tensor, place: int,
    mean: bool, shape: Sequence[int],
) -> None:  # fmt: skip
    """Sum the rows of each list in their order, or average them, into one place of `vectors`.

    `slots` are those of all lists, and `offsets` `[capacity + 1]` is where each list begins.
    Examples outside of `span` get zeros.
    """
    row = Shape(*shape)
    capacity, features, _ = vectors.shape
    inputs, columns = tile(row.dim, _ELEMENTS // 2)
    if capacity:
        _pooled[(triton.cdiv(capacity, inputs),)](
            *row.views(records), slots, offsets, span, vectors, capacity, features, place,
            MEAN=mean, SHAPE=tuple(row), INPUTS=inputs, COLUMNS=columns,
        )  # fmt: skip


@torch.library.custom_op("slipstream::look_up_steps", mutates_args={"steps"})
def steps(
    records: Tensor, slots: Tensor, offsets: Tensor, span: Tensor, steps: Tensor,
    shape: Sequence[int],
) -> None:  # fmt: skip
    """Copy the rows of sequences to `steps` `[capacity, length, dim]`; zeros behind their ends.

    The other arguments are those of `pooled`.
    """
    row = Shape(*shape)
    capacity, length, _ = steps.shape
    places, columns = tile(row.dim, _ELEMENTS)
    if capacity:
        _steps[(triton.cdiv(capacity * length, places),)](
            *row.views(records), slots, offsets, span, steps, capacity, length, SHAPE=tuple(row),
            PLACES=places, COLUMNS=columns,
        )  # fmt: skip


@triton.jit
def _singles(
    values, halves, slots, places, span, vectors, capacity, width, features, SHAPE: tl.constexpr,
    INPUTS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    feature = tl.program_id(1)
    place = tl.load(places + feature)
    inputs = tl.program_id(0) * INPUTS + tl.arange(0, INPUTS)
    inside = inputs < capacity
    slot = tl.load(slots + feature * width + inputs, mask=inside, other=-1).to(tl.int64)
    counts = (slot >= 0) & (inputs >= tl.load(span)) & (inputs < tl.load(span + 1))
    column = tl.arange(0, COLUMNS)
    real = column < SHAPE[2]
    mask = counts[:, None] & real[None, :]
    row = read(values, halves, slot[:, None], column[None, :], mask, SHAPE, False)
    out = (inputs.to(tl.int64) * features + place) * SHAPE[2]
    tl.store(vectors + out[:, None] + column[None, :], row, mask=inside[:, None] & real[None, :])


@triton.jit
def _pooled(
    values, halves, slots, offsets, span, vectors, capacity, features, place, MEAN: tl.constexpr,
    SHAPE: tl.constexpr, INPUTS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    inputs = tl.program_id(0) * INPUTS + tl.arange(0, INPUTS)
    inside = inputs < capacity
    counts = inside & (inputs >= tl.load(span)) & (inputs < tl.load(span + 1))
    first = tl.load(offsets + inputs, mask=counts, other=0)
    size = tl.load(offsets + inputs + 1, mask=counts, other=0) - first
    column = tl.arange(0, COLUMNS)
    real = column < SHAPE[2]
    total = tl.zeros((INPUTS, COLUMNS), values.dtype.element_ty)
    most = tl.max(size, 0)
    k = 0
    while k < most:
        more = k < size
        slot = tl.load(slots + first + k, mask=more, other=0).to(tl.int64)
        mask = more[:, None] & real[None, :]
        total += read(values, halves, slot[:, None], column[None, :], mask, SHAPE, False)
        k += 1
    if MEAN:
        total = total / tl.maximum(size, 1).to(values.dtype.element_ty)[:, None]
    out = (inputs.to(tl.int64) * features + place) * SHAPE[2]
    tl.store(vectors + out[:, None] + column[None, :], total, mask=inside[:, None] & real[None, :])


@triton.jit
def _steps(
    values, halves, slots, offsets, span, steps, capacity, length, SHAPE: tl.constexpr,
    PLACES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0) * PLACES + tl.arange(0, PLACES)
    inside = place < capacity * length
    inputs, step = place // length, place % length
    counts = inside & (inputs >= tl.load(span)) & (inputs < tl.load(span + 1))
    first = tl.load(offsets + inputs, mask=counts, other=0)
    last = tl.load(offsets + inputs + 1, mask=counts, other=0)
    more = first + step < last
    slot = tl.load(slots + first + step, mask=more, other=0).to(tl.int64)
    column = tl.arange(0, COLUMNS)
    real = column < SHAPE[2]
    row = read(
        values, halves, slot[:, None], column[None, :], more[:, None] & real[None, :], SHAPE, False
    )
    out = place.to(tl.int64) * SHAPE[2]
    tl.store(steps + out[:, None] + column[None, :], row, mask=inside[:, None] & real[None, :])
