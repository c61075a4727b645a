"""Ids to slots on the device: kept rows by their number, the few others from a list."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024


@torch.library.custom_op("slipstream::place", mutates_args={"slots"})
def place(
    ids: Tensor, n_valid: Tensor, columns: Tensor, limits: Tensor, bases: Tensor,
    cold_places: Tensor, cold_slots: Tensor, cold: Tensor, slots: Tensor,
) -> None:  # fmt: skip
    """Write the slots `[features, capacity]` of single features; -1 in padding.

    In `columns[f]` of the ids `[capacity, columns]`, an id below `limits[f]` is in slot `bases[f]`
    + id. The other lookups are the first `cold` of `cold_places` (`input * features + feature`) and
    `cold_slots`. All tensors are int32; `n_valid` and `cold` have one element.
    """
    features, capacity = slots.shape
    if slots.numel():
        _by_number[(triton.cdiv(capacity, _BLOCK), features)](
            ids, n_valid, columns, limits, bases, slots, capacity, ids.shape[1], BLOCK=_BLOCK
        )
    if len(cold_places):
        _from_list[(triton.cdiv(len(cold_places), _BLOCK),)](
            cold_places, cold_slots, cold, slots, capacity, features, BLOCK=_BLOCK
        )


@triton.jit
def _by_number(ids, n_valid, columns, limits, bases, slots, capacity, width, BLOCK: tl.constexpr):
    feature = tl.program_id(1)
    inputs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = inputs < tl.load(n_valid)
    at = inputs.to(tl.int64) * width + tl.load(columns + feature)
    number = tl.load(ids + at, mask=valid, other=0)
    stays = valid & (number < tl.load(limits + feature))
    slot = tl.where(stays, tl.load(bases + feature) + number, -1)
    tl.store(slots + feature.to(tl.int64) * capacity + inputs, slot, mask=inputs < capacity)


@triton.jit
def _from_list(cold_places, cold_slots, cold, slots, capacity, features, BLOCK: tl.constexpr):
    number = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = number < tl.load(cold)
    where = tl.load(cold_places + number, mask=real, other=0)
    slot = tl.load(cold_slots + number, mask=real, other=0)
    tl.store(slots + (where % features) * capacity + where // features, slot, mask=real)
