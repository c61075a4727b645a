"""The dot interaction of DLRM in one kernel each way.

A kernel reads the vectors of an example once, multiplies them, and writes the input of the next
layer; nothing in between goes through memory. Vectors lie beside each other, or are rows in their
slots (`dots_of_rows`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from slipstream.gpu.kernels.rows import Shape, read

_MOST = 64
"""The most vectors of an input, and the most elements of one, that a kernel takes at a time."""


def holds(count: int, dim: int) -> bool:
    """Whether the kernels have room for `count` vectors beside the first, of `dim` elements."""
    return count < _MOST and dim <= _MOST


def fits(first: Tensor, vectors: Tensor) -> bool:
    """Whether the kernels support these vectors: on a GPU, not too large, and not float64."""
    return (
        first.is_cuda
        and holds(*vectors.shape[1:])
        and torch.float64 not in (first.dtype, vectors.dtype)
    )


def width(count: int, dim: int) -> int:
    """Length of the result of a vector with `count` others, with the zeros at its end.

    Example:
        >>> width(26, 16)  # 16 + 351 values
        368
    """
    return -(-(dim + count * (count + 1) // 2) // 8) * 8


def dot_interaction(first: Tensor, vectors: Tensor) -> Tensor:
    """The first vector, the dot products of all pairs, and zeros up to a multiple of eight.

    `first` is `[B, dim]` and the others are `[B, count, dim]`; the result has the type of `first`.
    """
    return _forward(first.contiguous(), vectors.contiguous(), in_tf32(first))


def in_tf32(first: Tensor) -> bool:
    """Whether products have a fraction of 10 bits, as other matrix products then have."""
    return first.dtype == torch.float32 and torch.backends.cuda.matmul.allow_tf32


class Others(NamedTuple):
    """What the first vectors interact with, as kernels read it.

    `size` is the number of vectors of an example and of elements of each. `values` are the vectors
    `[B, count, dim]` or, if there is a `shape`, records as numbers. `halves` are these records as
    the bits of halves, `slots` `[count, B]` are the records of each example (perhaps some columns
    of a wider tensor), and `span` is the first example that counts and the one after the last.
    """

    size: tuple[int, int]
    values: Tensor
    halves: Tensor | None = None
    slots: Tensor | None = None
    span: Tensor | None = None
    shape: Shape | None = None

    @property
    def arguments(self) -> tuple[Tensor | int | None, ...]:
        """The arguments of a kernel."""
        apart = 0 if self.slots is None else self.slots.stride(0)
        return self.values, self.halves, self.slots, apart, self.span


def forward(first: Tensor, others: Others, tf32: bool) -> Tensor:
    """The interaction."""
    inputs = len(first)
    out = first.new_empty(inputs, width(*others.size))
    if inputs:
        _dots[(inputs,)](first, *others.arguments, out, TF32=tf32, **_sizes(others))
    return out


def backward(gradient: Tensor, first: Tensor, others: Others, tf32: bool) -> tuple[Tensor, Tensor]:
    """The gradients of the first vectors, and those of the others `[B, count, dim]`."""
    inputs = len(first)
    for_first = torch.empty_like(first)
    for_vectors = others.values.new_empty(inputs, *others.size)
    if inputs:
        read_from, out = (gradient, first, *others.arguments), (for_first, for_vectors)
        _dots_backward[(inputs,)](*read_from, *out, TF32=tf32, **_sizes(others))
    return for_first, for_vectors


@torch.library.custom_op("slipstream::dot_interaction", mutates_args=())
def _forward(first: Tensor, vectors: Tensor, tf32: bool) -> Tensor:
    return forward(first, Others(vectors.shape[1:], vectors), tf32)


@torch.library.custom_op("slipstream::dot_interaction_backward", mutates_args=())
def _backward(
    gradient: Tensor, first: Tensor, vectors: Tensor, tf32: bool
) -> tuple[Tensor, Tensor]:
    return backward(gradient, first, Others(vectors.shape[1:], vectors), tf32)


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


def _sizes(others: Others) -> dict[str, Any]:
    count, dim = others.size
    return {
        "SHAPE": None if others.shape is None else tuple(others.shape),
        "COUNT": count + 1,
        "DIM": dim,
        "WIDTH": width(count, dim),
        "ROWS": max(16, triton.next_power_of_2(count + 1)),
        "COLUMNS": max(16, triton.next_power_of_2(dim)),
        "num_warps": 1 if dim <= 32 else 2,
    }


@triton.jit
def _vectors(
    first, values, halves, slots, apart, span, at, row, column, SHAPE: tl.constexpr,
    COUNT: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    """All vectors of an example, the first one on top, zeros behind the last."""
    others = (row > 0) & (row < COUNT)
    real = (column < DIM)[None, :]
    if SHAPE is None:
        before = values + (at * (COUNT - 1) - 1) * DIM
        rows = tl.load(
            before + row[:, None] * DIM + column[None, :], mask=others[:, None] & real, other=0
        )
    else:
        counts = others & (at >= tl.load(span)) & (at < tl.load(span + 1))
        place = at + (row - 1) * apart
        slot = tl.load(slots + place, mask=counts, other=-1).to(tl.int64)
        mask = (slot >= 0)[:, None] & real
        rows = read(values, halves, slot[:, None], column[None, :], mask, SHAPE, False)
    top = tl.load(first + at * DIM + column, mask=column < DIM, other=0)
    return tl.where((row == 0)[:, None], top[None, :], rows.to(first.dtype.element_ty))


@triton.jit
def _dots(
    first, values, halves, slots, apart, span, out, TF32: tl.constexpr, SHAPE: tl.constexpr,
    COUNT: tl.constexpr, DIM: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64)
    row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    all_ = _vectors(first, values, halves, slots, apart, span, at, row, column, SHAPE, COUNT, DIM)
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
    gradient, first, values, halves, slots, apart, span, for_first, for_vectors, TF32: tl.constexpr,
    SHAPE: tl.constexpr, COUNT: tl.constexpr, DIM: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
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
    all_ = _vectors(first, values, halves, slots, apart, span, at, row, column, SHAPE, COUNT, DIM)
    precision: tl.constexpr = "tf32" if TF32 else "ieee"
    products = tl.dot(both.to(all_.dtype), all_, input_precision=precision)
    real = column < DIM
    passed = tl.load(here + column, mask=real, other=0).to(tl.float32)
    top = tl.sum(tl.where((row == 0)[:, None], products, 0), 0) + passed
    tl.store(for_first + at * DIM + column, top.to(for_first.dtype.element_ty), mask=real)
    others = ((row > 0) & (row < COUNT))[:, None] & real[None, :]
    before = for_vectors + (at * (COUNT - 1) - 1) * DIM
    tl.store(
        before + row[:, None] * DIM + column[None, :],
        products.to(for_vectors.dtype.element_ty),
        mask=others,
    )
