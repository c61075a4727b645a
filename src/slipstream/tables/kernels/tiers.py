"""Which rows are in the fast tier, batch by batch: compiled, without the interpreter lock.

Two numbers a row: the slot that it is in (-1: none), and the step of its last use that is known
of. A row that is kept for good has `ALWAYS_KEPT` there, so no test asks what kind of row it is.
"""

from __future__ import annotations

import numpy as np

from slipstream.arrays import Array
from slipstream.compiled import compiled

ALWAYS_KEPT = np.int32(2**31 - 1)
LET_GO = np.int32(-1)


@compiled
def survey(rows: Array, last_use: Array, first: int) -> tuple[int, int]:
    """What a batch would add to the window that begins at step `first`.

    Returns:
        How many of its rows no batch of the window uses yet, and the last step after which one of
        these was sent away: its value is not to be read before that has landed; 0 if there is none.
    """
    new = after = 0
    for k in range(len(rows)):
        use = last_use[rows[k]]
        if use < first:
            new += 1
            after = max(after, use)
    return new, after


@compiled
def enter(rows: Array, last_use: Array, step: int) -> None:
    """A batch enters the window: its rows are used at `step`, if no later use is known."""
    for k in range(len(rows)):
        row = rows[k]
        if last_use[row] < step:
            last_use[row] = step


@compiled
def need_again(rows: Array, last_use: Array, later: int) -> None:
    """Note, below `LET_GO`, how many batches later rows are used that were let go."""
    for k in range(len(rows)):
        if last_use[rows[k]] <= LET_GO:
            last_use[rows[k]] = LET_GO - 1 - later


@compiled
def keep(rows: Array, chosen: Array, last_use: Array) -> int:
    """Keep for good what is chosen of a batch; returns how many rows were not kept before."""
    new = 0
    for k in range(len(rows)):
        row = rows[k]
        if chosen[row] and last_use[row] != ALWAYS_KEPT:
            last_use[row] = ALWAYS_KEPT
            new += 1
    return new


@compiled
def not_kept(rows: Array, last_use: Array) -> int:
    """How many of these rows are not kept for good."""
    others = 0
    for k in range(len(rows)):
        others += last_use[rows[k]] != ALWAYS_KEPT
    return others


@compiled
def bring_in(
    rows: Array, slot_of: Array, free: Array, n_free: int, fill_rows: Array, fill_slots: Array
) -> int:
    """Give every row of a batch a slot; returns how many had none.

    `free` is a stack of `n_free` free slots; `fill_rows` and `fill_slots` receive the new ones.
    """
    filled = 0
    for k in range(len(rows)):
        row = rows[k]
        if slot_of[row] < 0:
            n_free -= 1
            slot = free[n_free]
            slot_of[row] = slot
            fill_rows[filled] = row
            fill_slots[filled] = slot
            filled += 1
    return filled


@compiled
def send_away(
    rows: Array,
    slot_of: Array,
    last_use: Array,
    step: int,
    free: Array,
    n_free: int,
    evict_rows: Array,
    evict_slots: Array,
) -> int:
    """Free the slots of rows whose last known use was this step; returns how many.

    A row may come twice: it leaves once.
    """
    count = 0
    for k in range(len(rows)):
        row = rows[k]
        slot = slot_of[row]
        if last_use[row] == step and slot >= 0:
            slot_of[row] = -1
            free[n_free + count] = slot
            evict_rows[count] = row
            evict_slots[count] = slot
            count += 1
    return count


@compiled
def to_slots(rows: Array, slot_of: Array, slots: Array) -> None:
    """The slots of rows; those below 0 stay as they are."""
    for k in range(len(rows)):
        row = rows[k]
        slots[k] = slot_of[row] if row >= 0 else row
