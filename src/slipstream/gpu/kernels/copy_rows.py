"""Whole records into slots of the fast tier, and out of them."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from slipstream.gpu.kernels.rows import tile

_ELEMENTS = 2048


@torch.library.custom_op("slipstream::put_rows", mutates_args={"records"})
def put(records: Tensor, slots: Tensor, count: Tensor, staged: Tensor) -> None:
    """Copy the first `count` staged records to their slots, which changes `records`."""
    if len(slots):
        _copy[_grid(slots, records)](staged, records, slots, count, OUT=False, **_sizes(records))


@torch.library.custom_op("slipstream::take_rows", mutates_args={"staged"})
def take(records: Tensor, slots: Tensor, count: Tensor, staged: Tensor) -> None:
    """Copy the records in the first `count` slots to `staged`, to be written back."""
    if len(slots):
        _copy[_grid(slots, records)](records, staged, slots, count, OUT=True, **_sizes(records))


def _sizes(records: Tensor) -> dict[str, int]:
    words = records.shape[1]
    rows, columns = tile(words, _ELEMENTS)
    return {"WORDS": words, "ROWS": rows, "COLUMNS": columns}


def _grid(slots: Tensor, records: Tensor) -> tuple[int]:
    return (triton.cdiv(len(slots), _sizes(records)["ROWS"]),)


@triton.jit
def _copy(
    source, target, slots, count, OUT: tl.constexpr, WORDS: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    limit = tl.load(count)
    if tl.program_id(0) * ROWS < limit:
        number = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        inside = number < limit
        slot = tl.load(slots + number, mask=inside, other=0).to(tl.int64) * WORDS
        column = tl.arange(0, COLUMNS)
        mask = inside[:, None] & (column < WORDS)[None, :]
        staged = number.to(tl.int64) * WORDS
        come_from = slot if OUT else staged
        go_to = staged if OUT else slot
        words = tl.load(source + come_from[:, None] + column[None, :], mask=mask, other=0)
        tl.store(target + go_to[:, None] + column[None, :], words, mask=mask)
