"""How kernels read and write rows, whatever their storage."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from slipstream.tables.spec import Group
from slipstream.tables.store import Record

FP32, FP64, BF16, SPLIT = (tl.constexpr(number) for number in range(4))
_NUMBER = {"fp32": FP32, "fp64": FP64, "bf16": BF16, "split-bf16": SPLIT}


class Shape(NamedTuple):
    """What kernels must know of a record when they are compiled.

    `words` is the length of a record in words of 32 bits, `dim` that of a row. `low` is where the
    lower halves begin, in halves, and `state` where the optimizer's state begins, in numbers.
    """

    storage: int
    words: int
    dim: int
    low: int
    state: int

    @classmethod
    def of(cls, group: Group) -> Shape:
        """The shape of a group's records."""
        record = Record.of(group)
        first = next(iter(group.optimizer.state_sizes(group.dim)), None)
        size = 8 if group.storage == "fp64" else 4
        low = record.fields["weight_low"].start // 2 if group.storage == "split-bf16" else 0
        state = 0 if first is None else record.fields[first].start // size
        return cls(_NUMBER[group.storage].value, record.words, group.dim, low, state)

    @property
    def dtype(self) -> torch.dtype:
        """The type of numbers in computations."""
        return torch.float64 if self.storage == FP64.value else torch.float32

    def views(self, records: Tensor) -> tuple[Tensor, Tensor]:
        """Records as numbers, and as the bits of halves."""
        return records.view(self.dtype), records.view(torch.int16)


def tile(dim: int, elements: int) -> tuple[int, int]:
    """Rows and columns of a block of about so many elements, both powers of two."""
    columns = triton.next_power_of_2(dim)
    return max(1, elements // columns), columns


@triton.jit
def read(values, halves, slots, column, mask, SHAPE: tl.constexpr, FULL: tl.constexpr):
    """Elements of the rows in some slots (int64); `FULL` also reads lower halves."""
    STORAGE: tl.constexpr = SHAPE[0]
    WORDS: tl.constexpr = SHAPE[1]
    if STORAGE == FP32:
        row = tl.load(values + slots * WORDS + column, mask=mask, other=0)
    elif STORAGE == FP64:
        row = tl.load(values + slots * (WORDS // 2) + column, mask=mask, other=0)
    else:
        at = slots * (2 * WORDS) + column
        bits = tl.load(halves + at, mask=mask, other=0).to(tl.int32) << 16
        if STORAGE == SPLIT and FULL:
            bits |= tl.load(halves + at + SHAPE[3], mask=mask, other=0).to(tl.int32) & 0xFFFF
        row = bits.to(tl.float32, bitcast=True)
    return row


@triton.jit
def write(values, halves, slots, column, mask, row, SHAPE: tl.constexpr):
    """Put elements of rows into slots (int64); bfloat16 is rounded to the nearest."""
    STORAGE: tl.constexpr = SHAPE[0]
    WORDS: tl.constexpr = SHAPE[1]
    if STORAGE == FP32:
        tl.store(values + slots * WORDS + column, row, mask=mask)
    elif STORAGE == FP64:
        tl.store(values + slots * (WORDS // 2) + column, row, mask=mask)
    else:
        at = slots * (2 * WORDS) + column
        bits = row.to(tl.int32, bitcast=True)
        if STORAGE == SPLIT:
            tl.store(halves + at, (bits >> 16).to(tl.int16), mask=mask)
            tl.store(halves + at + SHAPE[3], (bits & 0xFFFF).to(tl.int16), mask=mask)
        else:
            rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
            is_number = (bits & 0x7FFFFFFF) <= 0x7F800000
            tl.store(halves + at, tl.where(is_number, rounded, 0x7FC0).to(tl.int16), mask=mask)
