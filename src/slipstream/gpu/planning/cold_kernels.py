"""Which lookups of a batch are of rows that are not kept, and where these rows are: compiled.

Kept rows are the first of each table, so most ids need one comparison and nothing else. Of every
other row two numbers are known, side by side: the step of its last use, and which lookup of that
step's batch used it first. Those of a batch's rows are far apart in memory, so they are looked at
only once, when it enters the window. What comes after goes from lookup to lookup.
"""

from __future__ import annotations

import numpy as np

from slipstream.arrays import Array
from slipstream.compiled import compiled
from slipstream.prefetch import AHEAD, prefetch

USED, PLACE = 0, 1
NEW = -1
"""The use before, where there is none in the window."""
_AT_ONCE = 16  # inputs whose ids are compared together


@compiled
def scan(
    ids: Array,
    inputs: int,
    capacity: int,
    limits: Array,
    starts: Array,
    sizes: Array,
    places: Array,
    rows: Array,
    bounds: Array,
) -> int:
    """Write the lookups of rows that are not kept, of batches that lie side by side.

    If an id is out of range, returns -1 minus a place of one among those of all batches, else 0.

    Args:
        ids: Unsigned, so that a negative one is out of range, too; `[inputs, features]`.
        inputs: How many there are; what lies behind them is padding.
        capacity: Inputs of a batch.
        limits: How many rows of each feature's table are kept, of the type of the ids.
        starts: Where the rows of each one's table begin.
        sizes: Rows of that table.
        places: Out: `input of its batch * features + feature`; as long as there are ids.
        rows: Out: the rows; as long.
        bounds: Out: where the lookups of each batch begin, and the end of the last.
    """
    features = ids.shape[1]
    # Most tables are small, and all of their rows are kept: there is nothing to find in them.
    some = np.flatnonzero(limits.astype(np.int64) < sizes)
    some_limits, some_starts = limits[some], starts[some]
    ends = np.empty(_AT_ONCE * features, dtype=ids.dtype)
    for k in range(len(ends)):
        ends[k] = sizes[k % features]
    flat = ids.reshape(-1)
    found, wrong = 0, np.uint8(0)
    for batch in range(len(bounds) - 1):
        bounds[batch] = found
        begin = min(batch * capacity, inputs)
        end = min(begin + capacity, inputs)
        for first in range(begin, end, _AT_ONCE):
            last = min(first + _AT_ONCE, end)
            mine, here = flat[first * features : last * features], np.uint8(0)
            for k in range(len(mine)):  # on many of them at a time
                here |= np.uint8(mine[k] >= ends[k])
            wrong |= here
            for i in range(first, last):
                for f in range(len(some)):
                    value = ids[i, some[f]]
                    # Whether it is one is not known ahead: written in any case, it is no branch.
                    places[found] = (i - begin) * features + some[f]
                    rows[found] = some_starts[f] + np.int64(value)
                    found += value >= some_limits[f]
    bounds[-1] = found
    if wrong:
        for k in range(inputs * features):
            if flat[k] >= ends[k % features]:
                return -1 - k
    return 0


@compiled
def found(
    ids: Array,
    inputs: int,
    capacity: int,
    limits: Array,
    starts: Array,
    sizes: Array,
    places: Array,
    rows: Array,
    bounds: Array,
) -> tuple[int, Array, Array]:
    """As `scan`, with copies of the places and rows that were found: all without the lock."""
    wrong = scan(ids, inputs, capacity, limits, starts, sizes, places, rows, bounds)
    return wrong, places[: bounds[-1]].copy(), rows[: bounds[-1]].copy()


@compiled
def enter(
    rows: Array,
    bounds: Array,
    known: Array,
    first: int,
    step: int,
    room: int,
    before: Array,
    again: Array,
    new: Array,
    after: Array,
) -> int:
    """The rows of some batches are used at steps from `step` on, in a window from step `first` on.

    Batches behind the first for which there is no room are left out: whether they can use its rows
    depends on whether it waits for room, or is trained aside.

    Args:
        rows: Of the lookups, not distinct.
        bounds: Where those of each batch begin, and the end of the last.
        known: Last use of every row; changed.
        first: The first step of the window.
        step: That of the first of these batches.
        room: For how many rows there is room.
        before: Out, `[2, lookups]`: the step of the use before within the window, modulo the number
            of steps, or `NEW`, and which lookup of its batch that was; of the same step for a row
            that is looked up again.
        again: For each step, modulo their number, and each of its lookups, whether a later batch
            uses the row; changed.
        new: Out: for each how many of its rows no batch before it uses from `first` on.
        after: Out: the last step after which one of these was sent away, if it is larger: they are
            not to be read before that has landed.

    Returns:
        How many batches were not left out.
    """
    steps = len(again)
    for k in range(bounds[0], min(bounds[0] + AHEAD, bounds[-1])):
        prefetch(known, rows[k], 0)
    for batch in range(len(bounds) - 1):
        count = last = 0
        now, base = step + batch, bounds[batch]
        mine = rows[base : bounds[batch + 1]]
        again[now % steps, : len(mine)] = 0
        for place in range(len(mine)):
            if base + place + AHEAD < bounds[-1]:
                prefetch(known, rows[base + place + AHEAD], 0)
            row = mine[place]
            used, at = known[row, USED], known[row, PLACE]
            is_new = used < first
            count += is_new
            last = max(last, used if is_new else 0)
            where = NEW if is_new else used % steps
            before[0, base + place] = where
            before[1, base + place] = at
            if used < now:
                known[row, USED] = now
                known[row, PLACE] = place
                if not is_new:
                    again[where, at] = 1
        new[batch] = count
        after[batch] = max(after[batch], last)
        room -= count
        if room < 0:
            return batch + 1
    return len(bounds) - 1


@compiled
def leaving(bounds: Array, before: Array, again: Array, step: int) -> int:
    """How many rows `emit` will send away with the next batches, from step `step` on."""
    gone, steps = 0, len(again)
    for batch in range(len(bounds) - 1):
        now = (step + batch) % steps
        used, stays = before[0, bounds[batch] : bounds[batch + 1]], again[now]
        for place in range(len(used)):
            gone += (used[place] != now) & (stays[place] == 0)
    return gone


@compiled
def emit(
    rows: Array,
    bounds: Array,
    before: Array,
    again: Array,
    slot_of: Array,
    step: int,
    free: Array,
    n_free: int,
    slots: Array,
    fill_rows: Array,
    fill_slots: Array,
    fills: Array,
    evict_rows: Array,
    evict_slots: Array,
    evicts: Array,
) -> int:
    """Give the rows of the next batches their slots, and send away those that no later one uses.

    Args:
        rows: Of the lookups, not distinct.
        bounds: Where those of each batch begin, and the end of the last.
        before: As `enter` wrote it.
        again: As `enter` wrote it.
        slot_of: As `again`, the slots; changed.
        step: That of the first of these batches.
        free: A stack of free slots; changed.
        n_free: Its height.
        slots: Out: of the lookups.
        fill_rows: Out: rows to bring in.
        fill_slots: Out: their slots.
        fills: Out: where those of each batch begin, and the end of the last.
        evict_rows: Out: rows to write back after the step.
        evict_slots: Out: their slots.
        evicts: Out: where those of each batch begin, and the end of the last.

    Returns:
        The height of the stack.
    """
    filled = gone = 0
    steps = len(again)
    for batch in range(len(bounds) - 1):
        fills[batch], evicts[batch] = filled, gone
        base, end = bounds[batch], bounds[batch + 1]
        now = (step + batch) % steps
        mine, stays = slot_of[now], again[now]
        for place in range(end - base):
            k = base + place
            if k + AHEAD < end:
                later = before[0, k + AHEAD]
                prefetch(slot_of, max(later, 0), before[1, k + AHEAD] if later != NEW else 0)
            used = before[0, k]
            # Whether it is new or leaves is not known ahead: written in any case, it is no branch.
            is_new = used == NEW
            n_free -= is_new
            slot = free[n_free] if is_new else slot_of[max(used, 0), before[1, k] * (not is_new)]
            fill_rows[filled] = rows[k]
            fill_slots[filled] = slot
            filled += is_new
            mine[place] = slot
            slots[k - bounds[0]] = slot
            evict_rows[gone] = rows[k]
            evict_slots[gone] = slot
            gone += (used != now) & (stays[place] == 0)
        for k in range(evicts[batch], gone):
            free[n_free] = evict_slots[k]
            n_free += 1
    fills[-1], evicts[-1] = filled, gone
    return n_free
