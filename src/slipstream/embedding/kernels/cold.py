"""Which lookups of a batch are of rows that are not kept, and where these rows are: compiled.

Kept rows are the first of each table, so most ids need one comparison and nothing else. Of every
other row two numbers are known, side by side: its slot (-1: none), and the step of its last use.
"""

from __future__ import annotations

import numpy as np

from slipstream.compiled import compiled
from slipstream.data.inputs import Array

SLOT, USED = 0, 1
AT_ONCE = 32
"""Features that are looked at together."""
_PRODUCT = np.int64(0x077CB531)
_LOW = np.int64(0xFFFFFFFF)
_PLACE = np.zeros(32, dtype=np.int64)
for _bit in range(32):
    _PLACE[((_PRODUCT << np.int64(_bit)) & _LOW) >> np.int64(27)] = _bit


@compiled
def not_kept(ids: Array, limits: Array, masks: Array) -> None:
    """For each input the features whose rows are not kept, as bits.

    Args:
        ids: Unsigned, so that a negative one is not kept either; `[inputs, features]`, 32 features
            at most. This loop runs on many of them at a time.
        limits: How many rows of each feature's table are kept, of the same type.
        masks: Out: uint32.
    """
    features = ids.shape[1]
    bits = np.empty(features, dtype=np.uint32)
    for f in range(features):
        bits[f] = np.uint32(1) << np.uint32(f)
    for i in range(len(ids)):
        mask = np.uint32(0)
        for f in range(features):
            mask = np.uint32(mask | (bits[f] if ids[i, f] >= limits[f] else np.uint32(0)))
        masks[i] = mask


@compiled
def cold_lookups(
    ids: Array,
    masks: Array,
    first: int,
    features: int,
    starts: Array,
    sizes: Array,
    places: Array,
    rows: Array,
) -> int:
    """Write the lookups of rows that are not kept; returns how many.

    If an id is out of range, returns -1 minus its place.

    Args:
        ids: Of some features, `[inputs, features]`.
        masks: Which of these are of rows that are not kept.
        first: The first of these features.
        features: How many there are in all.
        starts: Where the rows of each one's table begin.
        sizes: Rows of that table.
        places: Out: `input * features + feature`.
        rows: Out: the rows.
    """
    found = 0
    for i in range(len(ids)):
        mask = masks[i]
        while mask:
            lowest = np.uint32(mask & (~mask + np.uint32(1)))
            f = _PLACE[((np.int64(lowest) * _PRODUCT) & _LOW) >> np.int64(27)]
            value = np.int64(ids[i, f])
            if value < 0 or value >= sizes[f]:
                return -1 - (i * features + first + f)
            places[found] = i * features + first + f
            rows[found] = starts[f] + value
            found += 1
            mask = np.uint32(mask ^ lowest)
    return found


@compiled
def enter(rows: Array, known: Array, first: int, step: int) -> tuple[int, int]:
    """The rows of a batch are used at a step of the window that begins at step `first`.

    Returns:
        How many of its rows no batch before it uses from then on, and the last step after which
        one of these was sent away: it is not to be read before that has landed.
    """
    new = after = 0
    for k in range(len(rows)):
        row = rows[k]
        used = known[row, USED]
        if used < first:
            new += 1
            after = max(after, used)
        if used < step:
            known[row, USED] = step
    return new, after


@compiled
def emit(
    rows: Array,
    known: Array,
    step: int,
    free: Array,
    n_free: int,
    slots: Array,
    fill_rows: Array,
    fill_slots: Array,
    evict_rows: Array,
    evict_slots: Array,
) -> tuple[int, int]:
    """Give the rows of the next batch their slots, and send away those that no later one uses.

    Args:
        rows: Of the lookups, not distinct.
        known: Slot and last use of every row; changed.
        step: The batch's.
        free: A stack of free slots; changed.
        n_free: Its height.
        slots: Out: of the lookups.
        fill_rows: Out: rows to bring in.
        fill_slots: Out: their slots.
        evict_rows: Out: rows to write back after the step.
        evict_slots: Out: their slots.

    Returns:
        How many rows come and how many leave.
    """
    filled = gone = 0
    for k in range(len(rows)):
        row = rows[k]
        slot = known[row, SLOT]
        if slot < 0:
            n_free -= 1
            slot = free[n_free]
            known[row, SLOT] = slot
            fill_rows[filled] = row
            fill_slots[filled] = slot
            filled += 1
        slots[k] = slot
    for k in range(len(rows)):
        row = rows[k]
        slot = known[row, SLOT]
        if slot >= 0 and known[row, USED] == step:
            known[row, SLOT] = -1
            free[n_free] = slot
            n_free += 1
            evict_rows[gone] = row
            evict_slots[gone] = slot
            gone += 1
    return filled, gone
