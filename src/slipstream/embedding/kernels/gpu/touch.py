"""The rows that a batch moves, found on the device: a stable sort of slots instead of a hash table.

What comes out is what `Touched` says of the same slots, with rows in order of their slots. The
sources of each row keep the order in which inputs come, so the bits of its sum are the same.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from slipstream.embedding.device.narrow import CHUNK, SHORT

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
        "long_starts": long + 1,
        "chunk_of": lookups // CHUNK + long + 1,
    }


@torch.library.custom_op(
    "slipstream::touch",
    mutates_args={
        "rows", "starts", "sources", "long_rows", "long_starts", "chunk_of", "counts"
    },
)  # fmt: skip
def touch(
    slots: Tensor,
    places: Tensor,
    features: int,
    rows: Tensor,
    starts: Tensor,
    sources: Tensor,
    long_rows: Tensor,
    long_starts: Tensor,
    chunk_of: Tensor,
    counts: Tensor,
) -> None:
    """Find the distinct rows of single features and the gradient vectors of each.

    Args:
        slots: int32 `[single features, capacity]`; -1 where nothing is looked up.
        places: int32, the place of each feature among those of the group.
        features: How many features the group has.
        rows: int32, out: the distinct slots.
        starts: int32, out: where the sources of each begin, and their number.
        sources: int32, out: numbers of gradient vectors.
        long_rows: int32, out: which rows have more than `SHORT` sources.
        long_starts: int32, out: where the chunks of each such row begin, and their number.
        chunk_of: int32, out: for each chunk its place in `long_rows`.
        counts: int32, out: rows, long rows and chunks, in its first elements.
    """
    singles, capacity = slots.shape
    lookups = slots.numel()
    if not lookups:
        counts[:3] = 0
        starts[:1] = 0
        long_starts[:1] = 0
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
    # Two sums in one pass: long rows above, their chunks below.
    both = torch.empty(lookups, dtype=torch.int64, device=slots.device)
    _sizes[grid](starts, counts, both, lookups, BLOCK=_BLOCK)
    total = torch.cumsum(both, 0)
    _long[grid](both, total, long_rows, long_starts, counts, lookups, BLOCK=_BLOCK)
    chunks = len(chunk_of)
    _chunk_of[(triton.cdiv(chunks, _BLOCK),)](
        long_starts, counts, chunk_of, chunks, HALVINGS=len(long_starts).bit_length(), BLOCK=_BLOCK
    )


@triton.jit
def _keys(slots, keys, singles, capacity, BLOCK: tl.constexpr):
    """Slots in input order; what is absent comes last."""
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
    keys,
    order,
    first,
    number,
    places,
    rows,
    starts,
    sources,
    counts,
    singles,
    features,
    lookups,
    BLOCK: tl.constexpr,
):
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


@triton.jit
def _sizes(starts, counts, both, lookups, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = row < tl.load(counts)
    begin = tl.load(starts + row, mask=real, other=0)
    size = tl.load(starts + row + 1, mask=real, other=0) - begin
    chunks = (size + _CHUNK - 1) // _CHUNK
    packed = tl.full((BLOCK,), 1, tl.int64) * (1 << 32) + chunks
    tl.store(both + row, tl.where(size > _SHORT, packed, 0), mask=row < lookups)


@triton.jit
def _long(
    both,
    total,
    long_rows,
    long_starts,
    counts,
    lookups,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = row < lookups
    mine = tl.load(both + row, mask=inside, other=0)
    until = tl.load(total + row, mask=inside, other=0)
    is_long = mine > 0
    chunks = (mine & 0xFFFFFFFF).to(tl.int32)
    place = (until >> 32).to(tl.int32) - 1
    end = (until & 0xFFFFFFFF).to(tl.int32)
    tl.store(long_rows + place, row, mask=is_long)
    tl.store(long_starts + place, end - chunks, mask=is_long)
    last = inside & (row == lookups - 1)
    tl.store(long_starts + place + 1, end, mask=last)
    tl.store(counts + 1 + row * 0, place + 1, mask=last)
    tl.store(counts + 2 + row * 0, end, mask=last)


@triton.jit
def _chunk_of(long_starts, counts, chunk_of, chunks, HALVINGS: tl.constexpr, BLOCK: tl.constexpr):
    """The long row of each chunk: the last one that begins at or before it."""
    chunk = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = chunk < tl.load(counts + 2)
    low = tl.zeros((BLOCK,), tl.int32)
    high = tl.zeros((BLOCK,), tl.int32) + tl.load(counts + 1)
    for _ in range(HALVINGS):
        middle = (low + high) // 2
        begins = tl.load(long_starts + middle, mask=real, other=0)
        low = tl.where(begins <= chunk, middle, low)
        high = tl.where(begins <= chunk, high, middle)
    tl.store(chunk_of + chunk, low, mask=real & (chunk < chunks))
