"""What an MLP does between its matrix products, each in one kernel.

Sums over a batch are first computed for blocks of `_ROWS` rows, so that the order in which they are
added depends on the sizes alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

from slipstream.gpu.kernels.padded_weights import Place

_ROWS, _COLUMNS, _BLOCK = 64, 128, 2048


def blocks(inputs: int) -> int:
    """How many partial sums so many rows have."""
    return triton.cdiv(inputs, _ROWS)


def pack(
    matrices: Sequence[Tensor], places: Sequence[Place], values: Tensor, place: Place | None,
    into: Tensor,
) -> None:  # fmt: skip
    """Copy matrices to their places in `into`, in its type, with zeros around them.

    A vector is a matrix of one row. `values` is one more matrix, whose number of rows may differ
    from call to call; it goes to `place`, if there is one.
    """
    shapes, first = [], 0
    for matrix, to in zip(matrices, places, strict=True):
        width = matrix.shape[-1]
        shapes.append((first, to.start, matrix.numel() // width, to.rows, width, to.columns))
        first += triton.cdiv(to.size, _BLOCK)
    start, size, columns = (0, 0, 8) if place is None else (place.start, place.size, place.columns)
    _pack[(first + triton.cdiv(size, _BLOCK),)](
        tuple(matrix.contiguous() for matrix in matrices), values, into, values.shape[0],
        SHAPES=tuple(shapes), VALUES=(first, start, values.shape[1], columns), BLOCK=_BLOCK,
    )  # fmt: skip


def single(values: Tensor, weight: Tensor, bias: Tensor, relu: bool) -> Tensor:
    """The result `[B, 1]` of a layer with one output, for which libraries take several kernels."""
    inputs, count = values.shape
    out = values.new_empty(inputs, 1)
    if inputs:
        columns = min(256, triton.next_power_of_2(count))
        sizes = {"COUNT": count, "ROWS": max(1, 4096 // columns), "COLUMNS": columns}
        grid = (triton.cdiv(inputs, sizes["ROWS"]),)
        _single[grid](values, weight, bias, out, inputs, RELU=relu, **sizes)
    return out


def through(above: Tensor, output: Tensor | None, into: Tensor, partial: Tensor, at: int) -> None:
    """The gradient before ReLU from that behind it, and its sums.

    `above` is the gradient `[B, columns]` and `output` the result of ReLU; without one only sums
    are computed. The result goes to `into`, which may be `above`. Sums of blocks of rows go to
    `partial` (float32 `[blocks, total]`), from column `at` on.
    """
    inputs, count = above.shape
    columns = _columns(count)
    _through[(blocks(inputs), triton.cdiv(count, columns))](
        above, above if output is None else output, into, partial, inputs, partial.shape[1], at,
        RELU=output is not None, COUNT=count, ROWS=_ROWS, COLUMNS=columns, num_warps=8,
    )  # fmt: skip


def from_single(
    gradient: Tensor, result: Tensor | None, weight: Tensor, output: Tensor, into: Tensor,
    partial: Tensor, at: tuple[int, int, int],
) -> None:  # fmt: skip
    """The gradient before ReLU where the layer above it has one output, and all its sums.

    `gradient` `[B, 1]` is that of this output, `result` the output if ReLU follows it too, and
    `weight` `[1, columns]` is that of the layer above. `output` and `into` `[B, columns]` are as in
    `through`. `at` has the columns of `partial` where the sums of `into` begin, those of `gradient`
    times `output`, and that of `gradient`.
    """
    inputs, count = output.shape
    columns = _columns(count)
    _from_single[(blocks(inputs), triton.cdiv(count, columns))](
        gradient, gradient if result is None else result, weight, output, into, partial, inputs,
        partial.shape[1], *at,
        RELU=result is not None, COUNT=count, ROWS=_ROWS, COLUMNS=columns, num_warps=8,
    )  # fmt: skip


def _columns(count: int) -> int:
    return min(_COLUMNS, triton.next_power_of_2(count))


@triton.jit
def _copy(
    source, into, block, rows, all_rows, WIDTH: tl.constexpr, FULL: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    if (block >= 0) & (block * BLOCK < all_rows * FULL):
        place = block * BLOCK + tl.arange(0, BLOCK)
        row, column = place // FULL, place % FULL
        real = (row < rows) & (column < WIDTH)
        numbers = tl.load(source + row * WIDTH + column, mask=real, other=0)
        tl.store(into + place, numbers.to(into.dtype.element_ty), mask=row < all_rows)


@triton.jit
def _pack(
    matrices, values, into, inputs, SHAPES: tl.constexpr, VALUES: tl.constexpr, BLOCK: tl.constexpr
):
    block = tl.program_id(0).to(tl.int64)
    for n in tl.static_range(len(SHAPES)):
        own_block = block - SHAPES[n][0]
        sizes = (SHAPES[n][2], SHAPES[n][3], SHAPES[n][4], SHAPES[n][5])
        _copy(matrices[n], into + SHAPES[n][1], own_block, *sizes, BLOCK)
    rest = block - VALUES[0]
    _copy(values, into + VALUES[1], rest, inputs, inputs, VALUES[2], VALUES[3], BLOCK)


@triton.jit
def _single(
    values, weight, bias, out, inputs, RELU: tl.constexpr, COUNT: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros((ROWS,), tl.float32)
    for start in range(0, COUNT, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        inside = (row < inputs)[:, None] & (column < COUNT)[None, :]
        place = row.to(tl.int64)[:, None] * COUNT + column[None, :]
        some = tl.load(values + place, mask=inside, other=0).to(tl.float32)
        by = tl.load(weight + column, mask=column < COUNT, other=0).to(tl.float32)
        total += tl.sum(some * by[None, :], 1)
    total += tl.load(bias).to(tl.float32)
    if RELU:
        total = tl.where(total <= 0, 0.0, total)
    tl.store(out + row, total.to(out.dtype.element_ty), mask=row < inputs)


@triton.jit
def _through(
    above, output, into, partial, inputs, total, at, RELU: tl.constexpr, COUNT: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (row < inputs)[:, None] & (column < COUNT)[None, :]
    place = row.to(tl.int64)[:, None] * COUNT + column[None, :]
    passed = tl.load(above + place, mask=inside, other=0).to(tl.float32)
    if RELU:
        outputs = tl.load(output + place, mask=inside, other=0).to(tl.float32)
        passed = tl.where(outputs <= 0, 0.0, passed)
        tl.store(into + place, passed.to(into.dtype.element_ty), mask=inside)
    here = partial + tl.program_id(0).to(tl.int64) * total
    tl.store(here + at + column, tl.sum(passed, 0), mask=column < COUNT)


@triton.jit
def _from_single(
    gradient, result, weight, output, into, partial, inputs, total, at, at_weight, at_bias,
    RELU: tl.constexpr, COUNT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    above = tl.load(gradient + row, mask=row < inputs, other=0).to(tl.float32)
    if RELU:
        results = tl.load(result + row, mask=row < inputs, other=0).to(tl.float32)
        above = tl.where(results <= 0, 0.0, above)
    inside = (row < inputs)[:, None] & (column < COUNT)[None, :]
    place = row.to(tl.int64)[:, None] * COUNT + column[None, :]
    outputs = tl.load(output + place, mask=inside, other=0).to(tl.float32)
    by = tl.load(weight + column, mask=column < COUNT, other=0).to(tl.float32)
    passed = tl.where(outputs <= 0, 0.0, above[:, None] * by[None, :])
    tl.store(into + place, passed.to(into.dtype.element_ty), mask=inside)
    here = partial + tl.program_id(0).to(tl.int64) * total
    tl.store(here + at + column, tl.sum(passed, 0), mask=column < COUNT)
    of_weight = tl.sum(above[:, None] * outputs, 0)
    tl.store(here + at_weight + column, of_weight, mask=column < COUNT)
    if tl.program_id(1) == 0:
        tl.store(here + at_bias, tl.sum(above, 0))
