"""The dot interaction of DLRM in one kernel each way.

Step by step it takes ten: vectors put together, all products, the triangle picked out of them, put
beside the first vector, and the same backwards. Here an input's vectors are read once, multiplied,
and what the next layer reads is written; nothing in between goes through memory.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_MOST = 64
"""The most vectors of an input, and the most elements of one, that a kernel takes at a time."""


def fits(first: Tensor, vectors: Tensor) -> bool:
    """Whether the kernels can do it: on a GPU, not too large, and no float64, which is for checks.

    Args:
        first: `[B, dim]`.
        vectors: `[B, count, dim]`.
    """
    return (
        first.is_cuda
        and vectors.shape[1] < _MOST
        and vectors.shape[2] <= _MOST
        and torch.float64 not in (first.dtype, vectors.dtype)
    )


def width(count: int, dim: int) -> int:
    """Values that the interaction of a vector with `count` others gives, and zeros behind them.

    Example:
        >>> width(26, 16)  # 16 + 351 values
        368
    """
    return -(-(dim + count * (count + 1) // 2) // 8) * 8


def dot_interaction(first: Tensor, vectors: Tensor) -> Tensor:
    """The first vector, the dot products of all pairs, and zeros up to a multiple of eight.

    Args:
        first: `[B, dim]`; what comes out has its type.
        vectors: The others, `[B, count, dim]`.
    """
    tf32 = first.dtype == torch.float32 and torch.backends.cuda.matmul.allow_tf32
    return _forward(first.contiguous(), vectors.contiguous(), tf32)


@torch.library.custom_op("slipstream::dot_interaction", mutates_args=())
def _forward(first: Tensor, vectors: Tensor, tf32: bool) -> Tensor:
    inputs, count, dim = vectors.shape
    out = first.new_empty(inputs, width(count, dim))
    if inputs:
        _dots[(inputs,)](first, vectors, out, TF32=tf32, **_sizes(count, dim))
    return out


@torch.library.custom_op("slipstream::dot_interaction_backward", mutates_args=())
def _backward(
    gradient: Tensor, first: Tensor, vectors: Tensor, tf32: bool
) -> tuple[Tensor, Tensor]:
    inputs, count, dim = vectors.shape
    for_first, for_vectors = torch.empty_like(first), torch.empty_like(vectors)
    if inputs:
        _dots_backward[(inputs,)](
            gradient, first, vectors, for_first, for_vectors, TF32=tf32, **_sizes(count, dim)
        )
    return for_first, for_vectors


@_forward.register_fake
def _(first: Tensor, vectors: Tensor, tf32: bool) -> Tensor:
    inputs, count, dim = vectors.shape
    return first.new_empty(inputs, width(count, dim))


@_backward.register_fake
def _(gradient: Tensor, first: Tensor, vectors: Tensor, tf32: bool) -> tuple[Tensor, Tensor]:
    return torch.empty_like(first), torch.empty_like(vectors)


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor, bool], output: Tensor) -> None:
    first, vectors, ctx.tf32 = inputs
    ctx.save_for_backward(first, vectors)


def _gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
    return *_backward(gradient.contiguous(), *ctx.saved_tensors, ctx.tf32), None


_forward.register_autograd(_gradients, setup_context=_keep)


def _sizes(count: int, dim: int) -> dict[str, int]:
    return {
        "COUNT": count + 1,
        "DIM": dim,
        "WIDTH": width(count, dim),
        "ROWS": max(16, triton.next_power_of_2(count + 1)),
        "COLUMNS": max(16, triton.next_power_of_2(dim)),
        "num_warps": 1 if dim <= 32 else 2,
    }


@triton.jit
def _vectors(first, vectors, at, COUNT: tl.constexpr, DIM: tl.constexpr, row, column):
    """All vectors of an input, the first one on top, zeros behind the last."""
    others = (row > 0) & (row < COUNT)
    real = (column < DIM)[None, :]
    before = vectors + (at * (COUNT - 1) - 1) * DIM
    found = tl.load(
        before + row[:, None] * DIM + column[None, :], mask=others[:, None] & real, other=0
    ).to(first.dtype.element_ty)
    top = tl.load(first + at * DIM + column, mask=column < DIM, other=0)
    return tl.where((row == 0)[:, None], top[None, :], found)


@triton.jit
def _dots(
    first,
    vectors,
    out,
    TF32: tl.constexpr,
    COUNT: tl.constexpr,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    at = tl.program_id(0).to(tl.int64)
    row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    all_ = _vectors(first, vectors, at, COUNT, DIM, row, column)
    precision: tl.constexpr = "tf32" if TF32 else "ieee"
    products = tl.dot(all_, tl.trans(all_), input_precision=precision)
    other = tl.arange(0, ROWS)
    place = DIM + row[:, None] * (row[:, None] - 1) // 2 + other[None, :]
    lower = (row[:, None] > other[None, :]) & (row[:, None] < COUNT)
    here = out + at * WIDTH
    tl.store(here + place, products.to(out.dtype.element_ty), mask=lower)
    top = tl.load(first + at * DIM + column, mask=column < DIM, other=0)
    tl.store(here + column, top, mask=column < DIM)
    FULL: tl.constexpr = DIM + COUNT * (COUNT - 1) // 2
    rest = FULL + tl.arange(0, 8)
    tl.store(here + rest, tl.zeros((8,), out.dtype.element_ty), mask=rest < WIDTH)


@triton.jit
def _dots_backward(
    gradient,
    first,
    vectors,
    for_first,
    for_vectors,
    TF32: tl.constexpr,
    COUNT: tl.constexpr,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    at = tl.program_id(0).to(tl.int64)
    row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    other = tl.arange(0, ROWS)
    # A product is the same for both of its vectors: filled into both triangles, one product does.
    high = tl.maximum(row[:, None], other[None, :])
    low = tl.minimum(row[:, None], other[None, :])
    here = gradient + at * WIDTH
    both = tl.load(
        here + DIM + high * (high - 1) // 2 + low, mask=(high < COUNT) & (high != low), other=0
    )
    all_ = _vectors(first, vectors, at, COUNT, DIM, row, column)
    precision: tl.constexpr = "tf32" if TF32 else "ieee"
    found = tl.dot(both.to(all_.dtype), all_, input_precision=precision)
    real = column < DIM
    passed = tl.load(here + column, mask=real, other=0).to(tl.float32)
    top = tl.sum(tl.where((row == 0)[:, None], found, 0), 0) + passed
    tl.store(for_first + at * DIM + column, top.to(for_first.dtype.element_ty), mask=real)
    others = ((row > 0) & (row < COUNT))[:, None] & real[None, :]
    before = for_vectors + (at * (COUNT - 1) - 1) * DIM
    tl.store(
        before + row[:, None] * DIM + column[None, :],
        found.to(for_vectors.dtype.element_ty),
        mask=others,
    )
