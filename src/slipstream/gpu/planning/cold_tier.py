"""The rows of one group that are not kept: their last uses, and the slots that they get."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from slipstream.arrays import Array
from slipstream.gpu.planning import cold_kernels
from slipstream.gpu.planning.cold_lookups import Scanned
from slipstream.pipeline.place.tier import TierSize
from slipstream.tables.plan import Emitted
from slipstream.tables.store import in_memory


class ColdPlan(NamedTuple):
    """What a device needs to know of one group's rows; all that is not here is kept.

    `places` (int32) are the lookups of rows that are not kept, `input * features + feature`, and
    `slots` their slots. `many` are all plans that were made with this one, or None for an oversized
    batch; `at` is its place among them.
    """

    places: Array
    slots: Array
    fill_rows: Array
    fill_slots: Array
    evict_rows: Array
    evict_slots: Array
    many: Emitted | None = None
    at: int = 0


def plans_of(many: Emitted) -> Iterator[ColdPlan]:
    """The plans of batches that were given their slots together."""
    cuts = (pairwise(bounds.tolist()) for bounds in (many.lookups, many.fills, many.evicts))
    for at, ((a, b), (c, d), (e, f)) in enumerate(zip(*cuts, strict=True)):
        yield ColdPlan(
            many.places[a:b], many.slots[a:b], many.fill_rows[c:d], many.fill_slots[c:d],
            many.evict_rows[e:f], many.evict_slots[e:f], many, at,
        )  # fmt: skip


class ColdTier:
    """The rows of one group that are not kept.

    One thread may `emit` batches while another has later ones `enter`: these touch only the data of
    steps behind those that are emitted. All else waits until everything is emitted. `steps` is the
    largest number of steps whose data is needed at once: those that are still to be emitted, and
    those of the window behind them. `settled` waits until nothing is left to be emitted.
    """

    def __init__(self, rows: int, room: TierSize, steps: int, settled: Callable[[], None]) -> None:
        self._settled = settled
        self._known = in_memory((rows, 2))
        self._again: Array = np.zeros((steps, 0), dtype=np.uint8)
        self._slot_of: Array = np.zeros((steps, 0), dtype=np.int32)
        first = len(room.keep)
        self._n_free = self.room = room.slots - first
        self._free = np.arange(room.slots - 1, first - 1, -1, dtype=np.int32)
        self.wanted = 0

    def enter(
        self,
        rows: Array, bounds: Array, first: int, step: int, room: int,
        before: Array, new: Array, after: Array,
    ) -> int:  # fmt: skip
        """The rows of some batches are used from `step` on; returns how many batches entered.

        Those behind the first for which there is no `room` are left out.
        """
        self._widen(int(np.diff(bounds).max(initial=0)))
        out = (before, self._again, new, after)
        return cold_kernels.enter(rows, bounds, self._known, first, step, room, *out)

    def _widen(self, lookups: int) -> None:
        """Make room for a batch with so many lookups."""
        more = lookups - self._again.shape[1]
        if more > 0:
            self._settled()  # what is emitted reads and writes what is replaced here
            wider = ((0, 0), (0, more + more // 4))
            self._again, self._slot_of = (np.pad(a, wider) for a in (self._again, self._slot_of))

    def oversized_batch(self, rows: Array, before: Array, step: int) -> ColdPlan:
        """Plan a batch that does not fit: its rows that are in slots. All leave after it."""
        used, at = before
        steps = len(self._slot_of)
        borrowed = (used != cold_kernels.NEW) & (used != step % steps)
        rows, slots = rows[borrowed], self._slot_of[used[borrowed], at[borrowed]]
        self._free[self._n_free : self._n_free + len(slots)] = slots
        self._n_free += len(slots)
        self.wanted -= len(slots)
        none = np.empty(0, dtype=np.int32)
        return ColdPlan(none, none, rows, slots, rows, slots)

    def leaving(self, lookups: Scanned, before: Array, step: int) -> int:
        """How many rows leave with some batches, before they are given slots."""
        return cold_kernels.leaving(lookups.bounds, before, self._again, step)

    def emit(self, scanned: Scanned, before: Array, step: int) -> Emitted:
        """Give the rows of some batches slots; the first of them is that of step `step`."""
        bounds = scanned.bounds
        n = int(bounds[-1] - bounds[0])
        slots, fill_slots, evict_slots = np.empty((3, n), dtype=np.int32)
        fill_rows, evict_rows = np.empty((2, n), dtype=scanned.rows.dtype)
        fills, evicts = np.empty((2, len(bounds)), dtype=np.int64)
        self._n_free = cold_kernels.emit(
            scanned.rows, bounds, before, self._again, self._slot_of, step, self._free,
            self._n_free, slots, fill_rows, fill_slots, fills, evict_rows, evict_slots, evicts,
        )  # fmt: skip
        places, lookups = scanned.places[bounds[0] : bounds[-1]], bounds - bounds[0]
        return Emitted(
            places, slots, lookups, fill_rows, fill_slots, fills, evict_rows, evict_slots, evicts
        )
