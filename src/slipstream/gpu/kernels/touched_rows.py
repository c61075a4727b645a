"""The rows that a batch updates, computed on the device by a stable sort of slots.

The result is a `GradientIndex` of the same slots, with rows in the order of their slots. The
sources of each row keep the order of the examples, so the bits of its sum are the same.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from slipstream.gpu.transfer.compiled_packing import CHUNK, SHORT

_SHORT = tl.constexpr(SHORT)
_CHUNK = tl.constexpr(CHUNK)
_ABSENT = tl.constexpr(2**31 - 1)
_BLOCK = 1024


def sizes(lookups: int) -> dict[str, int]:
    """How long the tensors that `touch` fills must be for so many lookups.

    Example:
        >>> sizes(1000)["long_rows"], sizes(1000)["chunk_of"]
        (30, 38)
    """
    long = lookups // (SHORT + 1)
    return {
        "rows": lookups,
        "starts": lookups + 1,
        "sources": lookups,
        "long_rows": long,
        "long_starts": long,
        "chunk_of": lookups // CHUNK + long + 1,
    }


@torch.library.custom_op(
    "slipstream::touch",
    mutates_args={
        "rows", "starts", "sources", "long_rows", "long_starts", "chunk_of", "counts"
    },
)  # fmt: skip
def touch(
    slots: Tensor, places: Tensor, features: int, rows: Tensor, starts: Tensor, sources: Tensor,
    long_rows: Tensor, long_starts: Tensor, chunk_of: Tensor, counts: Tensor,
) -> None:  # fmt: skip
    """Write the distinct rows of single features, and the gradient vectors of each row.

    `slots` is `[single features, capacity]`; -1 where nothing is looked up. `places` are the places
    of these features among the `features` of the group. Outputs: `rows` are the distinct slots,
    `starts` where the sources of each begin, `sources` the numbers of gradient vectors. `long_rows`
    are the rows with more than `SHORT` sources, `long_starts` where the chunks of each such row
    begin, and `chunk_of` is for each chunk its place in `long_rows`. `counts` begins with the
    numbers of rows, long rows and chunks. All tensors are int32.
    """
    singles, capacity = slots.shape
    lookups = slots.numel()
    if not lookups:
        counts[:3] = 0
        starts[:1] = 0
        return
    grid = (triton.cdiv(lookups, _BLOCK),)
    keys = torch.empty(lookups, dtype=torch.int32, device=slots.device)
    _keys[grid](slots, keys, singles, capacity, BLOCK=_BLOCK)
    keys, order = torch.sort(keys, stable=True)
    first = torch.empty_like(keys)
    _firsts[grid](keys, first, lookups, BLOCK=_BLOCK)
    number = torch.cumsum(first, 0, dtype=torch.int32)
    _rows[grid](
        keys, order, first, number, places, rows, starts, sources, counts,
        singles, features, lookups, BLOCK=_BLOCK,
    )  # fmt: skip
    _long[grid](starts, long_rows, long_starts, chunk_of, counts, BLOCK=_BLOCK)


@triton.jit
def _keys(slots, keys, singles, capacity, BLOCK: tl.constexpr):
    """Slots in the order of examples; absent ones come last."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < singles * capacity
    slot = tl.load(slots + (at % singles) * capacity + at // singles, mask=inside, other=-1)
    tl.store(keys + at, tl.where(slot < 0, _ABSENT, slot), mask=inside)


@triton.jit
def _firsts(keys, first, lookups, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < lookups
    key = tl.load(keys + at, mask=inside, other=_ABSENT)
    before = tl.load(keys + at - 1, mask=inside & (at > 0), other=-1)
    begins = (key != before) & (key != _ABSENT)
    tl.store(first + at, begins.to(tl.int32), mask=inside)


@triton.jit
def _rows(
    keys, order, first, number, places, rows, starts, sources, counts, singles, features, lookups,
    BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < lookups
    key = tl.load(keys + at, mask=inside, other=_ABSENT)
    counts_here = inside & (key != _ABSENT)
    row = tl.load(number + at, mask=inside, other=0)
    begins = counts_here & (tl.load(first + at, mask=inside, other=0) == 1)
    tl.store(rows + row - 1, key, mask=begins)
    tl.store(starts + row - 1, at, mask=begins)
    lookup = tl.load(order + at, mask=counts_here, other=0).to(tl.int32)
    place = tl.load(places + lookup % singles, mask=counts_here, other=0)
    tl.store(sources + at, (lookup // singles) * features + place, mask=counts_here)
    after = tl.load(keys + at + 1, mask=inside & (at + 1 < lookups), other=_ABSENT)
    last = counts_here & (after == _ABSENT)
    tl.store(starts + row, at + 1, mask=last)
    none = inside & (at == 0) & (key == _ABSENT)
    tl.store(starts + at, 0, mask=none)
    ends = last | none
    tl.store(counts + at * 0, tl.where(none, 0, row), mask=ends)
    begin = inside & (at == 0)
    tl.store(counts + 1 + at * 0, 0, mask=begin)
    tl.store(counts + 2 + at * 0, 0, mask=begin)


@triton.jit
def _long(starts, long_rows, long_starts, chunk_of, counts, BLOCK: tl.constexpr):
    """Write the long rows and their chunks, in any order: each is summed by itself."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = row < tl.load(counts)
    size = tl.load(starts + row + 1, mask=real, other=0) - tl.load(starts + row, mask=real, other=0)
    is_long = size > _SHORT
    long_row = is_long.to(tl.int32)
    chunks = tl.where(is_long, (size + _CHUNK - 1) // _CHUNK, 0)
    # Room for all of these at once.
    place = tl.atomic_add(counts + 1, tl.sum(long_row, 0)) + tl.cumsum(long_row, 0) - 1
    start = tl.atomic_add(counts + 2, tl.sum(chunks, 0)) + tl.cumsum(chunks, 0) - chunks
    tl.store(long_rows + place, row, mask=is_long)
    tl.store(long_starts + place, start, mask=is_long)
    most = tl.max(chunks, 0)
    k = most * 0
    while k < most:
        tl.store(chunk_of + start + k, place, mask=k < chunks)
        k += 1
