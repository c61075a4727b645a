"""The loops that pack plans: compiled, without the interpreter lock."""

from __future__ import annotations

from slipstream.arrays import Array
from slipstream.compiled import compiled

SHORT = 32
"""The longest list of sources that is summed in order."""
CHUNK = 128
"""Sources of a chunk of a longer list."""


@compiled
def narrow(numbers: Array, into: Array) -> None:
    """Copy numbers to the beginning of an array of narrower ones."""
    for k in range(len(numbers)):
        into[k] = numbers[k]


@compiled
def long_sizes(starts: Array) -> tuple[int, int]:
    """How many lists are longer than `SHORT`, and how many chunks these have."""
    long = chunks = 0
    for u in range(len(starts) - 1):
        size = starts[u + 1] - starts[u]
        if size > SHORT:
            long += 1
            chunks += (size + CHUNK - 1) // CHUNK
    return long, chunks


@compiled
def long_lists(
    starts: Array, long_rows: Array, long_starts: Array, chunk_of: Array
) -> tuple[int, int]:
    """Write the lists that are longer than `SHORT`; `starts` ends with the end of the last list.

    `long_rows` are their numbers, `long_starts` where the chunks of each begin, and `chunk_of` is
    for each chunk the place of its list in `long_rows`. Returns how many lists and chunks there
    are.
    """
    long = chunks = 0
    for u in range(len(starts) - 1):
        size = starts[u + 1] - starts[u]
        if size > SHORT:
            long_rows[long] = u
            long_starts[long] = chunks
            for _ in range((size + CHUNK - 1) // CHUNK):
                chunk_of[chunks] = long
                chunks += 1
            long += 1
    return long, chunks


@compiled
def pack_cold(
    words: Array, starts: Array, lookups: Array, places: Array, slots: Array, fills: Array,
    fill_slots: Array, evicts: Array, evict_slots: Array,
) -> None:  # fmt: skip
    """Write where rows are into blocks of int32 `words`, for plans that the device finishes.

    `starts` is where in a block the counts, the places and slots of lookups, the slots of rows
    that come and of rows that leave begin. `lookups`, `fills` and `evicts` are where the lookups,
    rows that come and rows that leave of each plan begin, and where the last end.
    """
    for page in range(len(lookups) - 1):
        block = words[page]
        counts = block[starts[0] : starts[0] + 6]
        counts[:3] = 0
        counts[3] = _put(block, starts[3], fill_slots, fills[page], fills[page + 1])
        counts[4] = _put(block, starts[4], evict_slots, evicts[page], evicts[page + 1])
        counts[5] = _put(block, starts[1], places, lookups[page], lookups[page + 1])
        _put(block, starts[2], slots, lookups[page], lookups[page + 1])


@compiled
def _put(block: Array, at: int, numbers: Array, begin: int, end: int) -> int:
    """Copy some numbers into a block, and return how many.

    A slice is copied several numbers at a time. A loop over elements of two arrays of one type is
    not: they might be the same memory.
    """
    block[at : at + end - begin] = numbers[begin:end]
    return end - begin
