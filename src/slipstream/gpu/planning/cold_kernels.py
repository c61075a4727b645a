"""Which lookups of a batch are of rows that are not kept, and where these rows are: compiled.

Kept rows are the first of each table, so most ids need one comparison and nothing else. Of every
other row two numbers are stored, side by side: the step of its last use, and the first lookup of
that step's batch that used it. Those of a batch's rows are far apart in memory, so they are read
only once, when the batch enters the window. Later passes go from lookup to lookup.
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
    ids: Array, inputs: int, capacity: int, limits: Array, starts: Array, sizes: Array,
    places: Array, rows: Array, bounds: Array,
) -> int:  # fmt: skip
    """Write the lookups of rows that are not kept, of batches that lie side by side.

    `ids` `[inputs, features]` are unsigned, so that a negative one is out of range, too; `inputs`
    is how many are no padding, and `capacity` the inputs of a batch. `limits` are the numbers of
    kept rows of each feature's table, of the type of the ids, `starts` where the rows of the table
    begin, and `sizes` its rows. Outputs: `places` (`input of its batch * features + feature`) and
    `rows` have room for all ids; `bounds` is where the lookups of each batch begin, and where the
    last end.

    If an id is out of range, returns -1 minus its place among the ids of all batches, else 0.
    """
    features = ids.shape[1]
    # Of most tables, which are small, all rows are kept.
    some = np.flatnonzero(limits.astype(np.int64) < sizes)
    some_limits, some_starts = limits[some], starts[some]
    ends = np.empty(_AT_ONCE * features, dtype=ids.dtype)
    for k in range(len(ends)):
        ends[k] = sizes[k % features]
    flat = ids.reshape(-1)
    count, wrong = 0, np.uint8(0)
    for batch in range(len(bounds) - 1):
        bounds[batch] = count
        begin = min(batch * capacity, inputs)
        end = min(begin + capacity, inputs)
        for first in range(begin, end, _AT_ONCE):
            last = min(first + _AT_ONCE, end)
            some_ids, out_of_range = flat[first * features : last * features], np.uint8(0)
            for k in range(len(some_ids)):  # the compiler compares many at a time
                out_of_range |= np.uint8(some_ids[k] >= ends[k])
            wrong |= out_of_range
            for i in range(first, last):
                for f in range(len(some)):
                    value = ids[i, some[f]]
                    # Written in any case: so there is no branch that the CPU must predict.
                    places[count] = (i - begin) * features + some[f]
                    rows[count] = some_starts[f] + np.int64(value)
                    count += value >= some_limits[f]
    bounds[-1] = count
    if wrong:
        for k in range(inputs * features):
            if flat[k] >= ends[k % features]:
                return -1 - k
    return 0


@compiled
def scan_and_copy(
    ids: Array, inputs: int, capacity: int, limits: Array, starts: Array, sizes: Array,
    places: Array, rows: Array, bounds: Array,
) -> tuple[int, Array, Array]:  # fmt: skip
    """As `scan`, with copies of the places and rows: all without the interpreter lock."""
    wrong = scan(ids, inputs, capacity, limits, starts, sizes, places, rows, bounds)
    return wrong, places[: bounds[-1]].copy(), rows[: bounds[-1]].copy()


@compiled
def enter(
    rows: Array, bounds: Array, known: Array, first: int, step: int, room: int, before: Array,
    again: Array, new: Array, after: Array,
) -> int:  # fmt: skip
    """The rows of some batches are used at steps from `step` on, in a window from step `first` on.

    Batches behind the first for which there is no `room` are left out: whether they can use its
    rows depends on whether it waits for room, or is trained by itself. Returns how many are not
    left out.

    `rows` (not distinct) are those of the lookups, and `bounds` is where those of each batch
    begin. `known` is the last use of every row; changed. `before` `[2, lookups]` is an output: the
    step of the use before within the window, modulo the number of steps, or `NEW`, and which lookup
    of its batch that was; of the same step for a row that is looked up again. `again` is for each
    step, modulo their number, and each lookup whether a later batch uses the row; changed.
    `new` is an output: for each batch how many of its rows no batch before it uses from `first` on.
    `after` is an output: the last step after which one of these was sent away, if it is larger;
    they must not be read before that write-back has finished.
    """
    steps = len(again)
    for k in range(bounds[0], min(bounds[0] + AHEAD, bounds[-1])):
        prefetch(known, rows[k], 0)
    for batch in range(len(bounds) - 1):
        count = last = 0
        now, base = step + batch, bounds[batch]
        batch_rows = rows[base : bounds[batch + 1]]
        again[now % steps, : len(batch_rows)] = 0
        for place in range(len(batch_rows)):
            if base + place + AHEAD < bounds[-1]:
                prefetch(known, rows[base + place + AHEAD], 0)
            row = batch_rows[place]
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
    count, steps = 0, len(again)
    for batch in range(len(bounds) - 1):
        now = (step + batch) % steps
        used, stays = before[0, bounds[batch] : bounds[batch + 1]], again[now]
        for place in range(len(used)):
            count += (used[place] != now) & (stays[place] == 0)
    return count


@compiled
def emit(
    rows: Array, bounds: Array, before: Array, again: Array, slot_of: Array, step: int, free: Array,
    n_free: int, slots: Array, fill_rows: Array, fill_slots: Array, fills: Array, evict_rows: Array,
    evict_slots: Array, evicts: Array,
) -> int:  # fmt: skip
    """Give the rows of the next batches their slots, and send away those that no later one uses.

    `rows` to `again` are as in `enter`; `slot_of` has the slots, as `again`, and is changed. `free`
    is a stack of free slots of height `n_free`; changed. Outputs: `slots` of the lookups, the rows
    to bring in and their slots, the rows to write back after the step and their slots; `fills` and
    `evicts` are where those of each batch begin, and where the last end. Returns the height of the
    stack.
    """
    filled = evicted = 0
    steps = len(again)
    for batch in range(len(bounds) - 1):
        fills[batch], evicts[batch] = filled, evicted
        base, end = bounds[batch], bounds[batch + 1]
        now = (step + batch) % steps
        batch_slots, stays = slot_of[now], again[now]
        for place in range(end - base):
            k = base + place
            if k + AHEAD < end:
                later = before[0, k + AHEAD]
                prefetch(slot_of, max(later, 0), before[1, k + AHEAD] if later != NEW else 0)
            used = before[0, k]
            # Written in any case: so there are no branches that the CPU must predict.
            is_new = used == NEW
            n_free -= is_new
            slot = free[n_free] if is_new else slot_of[max(used, 0), before[1, k] * (not is_new)]
            fill_rows[filled] = rows[k]
            fill_slots[filled] = slot
            filled += is_new
            batch_slots[place] = slot
            slots[k - bounds[0]] = slot
            evict_rows[evicted] = rows[k]
            evict_slots[evicted] = slot
            evicted += (used != now) & (stays[place] == 0)
        for k in range(evicts[batch], evicted):
            free[n_free] = evict_slots[k]
            n_free += 1
    fills[-1], evicts[-1] = filled, evicted
    return n_free
