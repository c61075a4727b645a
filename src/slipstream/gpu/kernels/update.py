"""Updates rows in the fast tier: the gradient vectors of each row are summed, then applied once.

The order of a sum depends on the row's own list of sources alone, not on its slot, on other rows or
on timing: so the bits are the same for every placement and every run. A short list is summed in
order. A long one (perhaps of a table with three rows) is cut into chunks that are summed in
parallel, and then the sums of its chunks are added: one row must not keep the whole GPU waiting.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from slipstream.gpu.kernels.rows import FP64, Shape, read, tile, write
from slipstream.gpu.transfer.compiled_packing import CHUNK, SHORT

NUMBER = {"sgd": 0, "adagrad": 1, "rowwise_adagrad": 2, "adam": 3}
SGD, ADAGRAD, ROWWISE, ADAM = (tl.constexpr(number) for number in range(4))
_SHORT = tl.constexpr(SHORT)
_CHUNK = tl.constexpr(CHUNK)
_ELEMENTS = 512
_AT_ONCE = 2048


@torch.library.custom_op("slipstream::update_rows", mutates_args={"records"})
def update_rows(
    records: Tensor, rows: Tensor, starts: Tensor, sources: Tensor, long_rows: Tensor,
    long_starts: Tensor, chunk_of: Tensor, counts: Tensor, gradient: Tensor, parameters: Tensor,
    optimizer: int, shape: Sequence[int],
) -> None:  # fmt: skip
    """Update the rows of a batch in `records`.

    `rows` to `counts` are outputs of `touched_rows.touch`, or the same from the host. `gradient` is
    `[number, dim]`. `parameters` (float64 `[4]`) are the numbers of the optimizer, and `shape` is a
    `Shape`.
    """
    row = Shape(*shape)
    values, halves = row.views(records)
    at_once, columns = tile(row.dim, _AT_ONCE)
    at_once = min(at_once, CHUNK)
    most = len(chunk_of)
    partial = torch.empty((most, row.dim), dtype=row.dtype, device=records.device)
    common = {"SHAPE": tuple(row), "COLUMNS": columns}
    if most:
        _chunks[(most,)](
            starts, sources, long_rows, long_starts, chunk_of, counts, gradient, partial,
            AT_ONCE=at_once, **common,
        )  # fmt: skip
        _move_long[(len(long_rows),)](
            values, halves, rows, starts, long_rows, long_starts, counts, partial, parameters,
            OPTIMIZER=optimizer, AT_ONCE=at_once, **common,
        )  # fmt: skip
    some, columns = tile(row.dim, _ELEMENTS)
    if len(rows):
        _move_short[(triton.cdiv(len(rows), some),)](
            values, halves, rows, starts, sources, counts, gradient, parameters,
            OPTIMIZER=optimizer, ROWS=some, **common,
        )  # fmt: skip


@triton.jit
def _chunks(
    starts, sources, long_rows, long_starts, chunk_of, counts, gradient, partial,
    SHAPE: tl.constexpr, AT_ONCE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    chunk = tl.program_id(0)
    if chunk < tl.load(counts + 2):
        long = tl.load(chunk_of + chunk)
        row = tl.load(long_rows + long)
        begin = tl.load(starts + row) + (chunk - tl.load(long_starts + long)) * _CHUNK
        end = tl.minimum(begin + _CHUNK, tl.load(starts + row + 1))
        column = tl.arange(0, COLUMNS)
        real = column < SHAPE[2]
        total = tl.zeros((COLUMNS,), gradient.dtype.element_ty)
        first = begin
        while first < end:
            at = first + tl.arange(0, AT_ONCE)
            more = at < end
            source = tl.load(sources + at, mask=more, other=0).to(tl.int64) * SHAPE[2]
            mask = more[:, None] & real[None, :]
            total += tl.sum(
                tl.load(gradient + source[:, None] + column[None, :], mask=mask, other=0), 0
            )
            first += AT_ONCE
        tl.store(partial + chunk.to(tl.int64) * SHAPE[2] + column, total, mask=real)


@triton.jit
def _move_long(
    values, halves, rows, starts, long_rows, long_starts, counts, partial, parameters,
    OPTIMIZER: tl.constexpr, SHAPE: tl.constexpr, AT_ONCE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    long = tl.program_id(0)
    if long < tl.load(counts + 1):
        row = tl.load(long_rows + long)
        begin = tl.load(long_starts + long)
        size = tl.load(starts + row + 1) - tl.load(starts + row)
        end = begin + (size + _CHUNK - 1) // _CHUNK
        column = tl.arange(0, COLUMNS)
        real = column < SHAPE[2]
        total = tl.zeros((COLUMNS,), partial.dtype.element_ty)
        first = begin
        while first < end:
            at = first + tl.arange(0, AT_ONCE)
            mask = (at < end)[:, None] & real[None, :]
            where = at.to(tl.int64)[:, None] * SHAPE[2] + column[None, :]
            total += tl.sum(tl.load(partial + where, mask=mask, other=0), 0)
            first += AT_ONCE
        slot = tl.load(rows + row).to(tl.int64)
        slots = tl.zeros((1,), tl.int64) + slot
        _apply(
            values, halves, slots[:, None], column[None, :], real[None, :], total[None, :],
            parameters, OPTIMIZER, SHAPE,
        )  # fmt: skip


@triton.jit
def _move_short(
    values, halves, rows, starts, sources, counts, gradient, parameters, OPTIMIZER: tl.constexpr,
    SHAPE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    count = tl.load(counts)
    if tl.program_id(0) * ROWS < count:
        number = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        inside = number < count
        begin = tl.load(starts + number, mask=inside, other=0)
        size = tl.load(starts + number + 1, mask=inside, other=0) - begin
        size = tl.where(size <= _SHORT, size, 0)
        column = tl.arange(0, COLUMNS)
        real = column < SHAPE[2]
        total = tl.zeros((ROWS, COLUMNS), gradient.dtype.element_ty)
        most = tl.max(size, 0)
        k = 0
        while k < most:
            more = k < size
            source = tl.load(sources + begin + k, mask=more, other=0).to(tl.int64) * SHAPE[2]
            mask = more[:, None] & real[None, :]
            total += tl.load(gradient + source[:, None] + column[None, :], mask=mask, other=0)
            k += 1
        slot = tl.load(rows + number, mask=inside, other=0).to(tl.int64)
        mask = (size > 0)[:, None] & real[None, :]
        _apply(
            values, halves, slot[:, None], column[None, :], mask, total,
            parameters, OPTIMIZER, SHAPE,
        )  # fmt: skip


@triton.jit
def _apply(
    values, halves, slot, column, mask, gradient, parameters, OPTIMIZER: tl.constexpr,
    SHAPE: tl.constexpr,
):  # fmt: skip
    """Update rows `[rows, columns]` by their whole gradient."""
    number = values.dtype.element_ty
    rate = tl.load(parameters).to(number)
    eps = tl.load(parameters + 1).to(number)
    third = tl.load(parameters + 2).to(number)
    STRIDE: tl.constexpr = SHAPE[1] // 2 if SHAPE[0] == FP64 else SHAPE[1]
    row = read(values, halves, slot, column, mask, SHAPE, True)
    state = values + slot * STRIDE + SHAPE[4]
    if OPTIMIZER != ADAM:
        gradient += third * row  # weight decay
    if OPTIMIZER == SGD:
        row -= rate * gradient
    elif OPTIMIZER == ADAGRAD:
        total = tl.load(state + column, mask=mask, other=0) + gradient * gradient
        tl.store(state + column, total, mask=mask)
        row -= _divided(rate * gradient, _root(total, SHAPE) + eps, SHAPE)
    elif OPTIMIZER == ROWWISE:
        first = mask & (column == 0)
        before = tl.sum(tl.load(state + column, mask=first, other=0), 1)
        squares = tl.where(mask, gradient * gradient, 0)
        total = before + tl.sum(squares, 1) / SHAPE[2]
        tl.store(state + column, tl.broadcast_to(total[:, None], mask.shape), mask=first)
        row -= _divided(rate, _root(total, SHAPE) + eps, SHAPE)[:, None] * gradient
    else:
        fourth = tl.load(parameters + 3).to(number)
        mean = tl.load(state + column, mask=mask, other=0)
        square = tl.load(state + SHAPE[2] + column, mask=mask, other=0)
        mean += (gradient - mean) * third
        square += (gradient * gradient - square) * fourth
        tl.store(state + column, mean, mask=mask)
        tl.store(state + SHAPE[2] + column, square, mask=mask)
        row -= rate * _divided(mean, _root(square, SHAPE) + eps, SHAPE)
    write(values, halves, slot, column, mask, row, SHAPE)


@triton.jit
def _root(value, SHAPE: tl.constexpr):
    """Rounded to the nearest, which float64 always is."""
    return tl.sqrt(value) if SHAPE[0] == FP64 else tl.sqrt_rn(value)


@triton.jit
def _divided(value, by, SHAPE: tl.constexpr):
    """Rounded to the nearest, which float64 always is."""
    return value / by if SHAPE[0] == FP64 else tl.div_rn(value + tl.zeros_like(by), by)
