"""Plans for a device that finds kept rows by itself: the host looks at the other rows alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from itertools import pairwise
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np

from slipstream.ahead import Ahead
from slipstream.data.batch import Batch
from slipstream.data.inputs import Array
from slipstream.embedding.kernels import cold
from slipstream.embedding.spec import Layout
from slipstream.embedding.store import in_memory
from slipstream.errors import ConfigError
from slipstream.placement.scan import Scanned, Scanner, kept_of, read_at_once
from slipstream.placement.tier import Room
from slipstream.plan import Emitted

_SCANNERS = 3  # threads


class ColdPlan(NamedTuple):
    """What a device must be told of one group's rows; all that is not here is kept.

    Args:
        places: int32: the lookups of rows that are not kept, `input * features + feature`.
        slots: int32: where these rows are.
        fill_rows: Rows to bring in before the step.
        fill_slots: int32: their slots.
        evict_rows: Rows to write back after it.
        evict_slots: int32: their slots.
        many: The plans that were made with this one, all of it; None for a batch aside.
        at: Which of them it is.
    """

    places: Array
    slots: Array
    fill_rows: Array
    fill_slots: Array
    evict_rows: Array
    evict_slots: Array
    many: Emitted | None = None
    at: int = 0


class ColdPlaced(NamedTuple):
    """A batch, what to tell the device of each group, and the step whose write-backs it awaits.

    A batch that does not fit beside the kept rows, even alone, is `aside`: what its plans fill are
    the rows that it needs and that are in slots, but for kept ones.
    """

    batch: Batch
    groups: tuple[ColdPlan, ...]
    after: int
    aside: bool = False


class Cold:
    """Plans which rows are brought into the fast tier, and which leave it, looking ahead.

    It decides as `Tiered` does with kept rows that stay the same (where several batches enter at
    once the window moves on by as many, and rows may leave a little earlier), but looks only at
    lookups of other rows, and leaves it to the device to find the slots of kept rows and the
    distinct rows of a batch. That is what makes it several times faster.

    Args:
        layout: Tables and features.
        singles: The names of the columns in the block of single ids, in order.
        rooms: The fast tier of each group.
        window: The most batches to look ahead, the current one among them.
        scans_ahead: How often threads of their own have scanned batches beyond these, and one hands
            out slots beside this one; 0 does everything here, with the same plans.
        at_once: The most batches that enter the window at once, if it is at least as long.
    """

    def __init__(
        self,
        layout: Layout,
        singles: Sequence[str],
        rooms: Sequence[Room],
        window: int,
        scans_ahead: int = 0,
        at_once: int = 1,
    ) -> None:
        if window < 1:
            raise ConfigError(f"The window is {window} batches; it must be at least 1.")
        self._at_once = min(at_once, window)
        self._rooms, self._window, self._scans_ahead = rooms, window, scans_ahead
        self.kept = [
            kept_of(layout, group, singles, room.keep)
            for group, room in zip(layout.groups, rooms, strict=True)
        ]
        self._rows = [group.rows for group in layout.groups]
        self._scanners: SimpleQueue[list[Scanner]] = SimpleQueue()
        for _ in range(_SCANNERS):
            pairs = zip(self.kept, layout.groups, strict=True)
            self._scanners.put(
                [
                    Scanner(kept, [layout.features[n].column for n in group.features])
                    for kept, group in pairs
                    if kept is not None
                ]
            )

    def place(self, batches: Iterable[Batch], step: int) -> Generator[ColdPlaced, None, None]:
        """What comes before each batch and what leaves after it; the first has number `step`."""
        steps = self._window + self._at_once + 1
        tiers = [
            _Tier(rows, room, steps) for rows, room in zip(self._rows, self._rooms, strict=True)
        ]
        with ExitStack() as stack:
            emitter = None
            if self._scans_ahead:
                emitter = stack.enter_context(ThreadPoolExecutor(1, "slipstream-slots"))
            coming = stack.enter_context(closing(self._scanned(batches)))
            placed: Iterator[_Emitted | _Aside] = self._placed(tiers, coming, step, emitter)
            if self._scans_ahead:
                placed = stack.enter_context(Ahead(placed, 1, "window"))
            for some in placed:
                yield from some.plans()

    def _placed(
        self,
        tiers: Sequence[_Tier],
        coming: Iterator[_Some],
        step: int,
        emitter: ThreadPoolExecutor | None,
    ) -> Iterator[_Emitted | _Aside]:
        """Batches with their slots: while these are handed out, the window goes on behind them."""
        window: deque[_Some] = deque()
        held: _Some | None = None  # a batch for which there is no room yet
        rest: _Some | None = None
        emitted: _Emitted | None = None
        number = last = step  # of the next plan, and of the next batch to enter
        while True:
            while held is None:
                ahead = last - number
                if ahead and ahead + self._at_once > self._window:
                    break
                some = rest or next(coming, None)
                if some is None:
                    break
                some, rest = some.split(some.enter(tiers, number, last))
                last += len(some.batches)
                fit, held = some.split(some.fits(tiers))
                window += fit.wanted(tiers)
            before = emitted
            if before is not None:
                before.leave(tiers)
            if held is not None:
                fit, held = held.split(held.fits(tiers))
                window += fit.wanted(tiers)
            emitted = None
            if window:
                emitted = _Emitted(window.popleft(), tiers, number, emitter)
                number += len(emitted.some.batches)
            if before is not None:
                yield before
            elif emitted is None and held is not None:
                yield _Aside(held.aside(tiers, number))
                number, held = number + 1, None
            elif emitted is None:
                return

    def _scanned(self, batches: Iterable[Batch]) -> Generator[_Some, None, None]:
        """Batches with their lookups of rows that are not kept; threads scan some ahead."""
        read = read_at_once(batches, self._at_once)
        if not self._scans_ahead:
            yield from map(self._scanned_by_one, read)
            return
        with ThreadPoolExecutor(_SCANNERS, thread_name_prefix="slipstream-scan") as pool:
            scanned = (pool.submit(self._scanned_by_one, some) for some in read)
            with Ahead(scanned, self._scans_ahead, "scans") as ahead:
                for some in ahead:
                    yield some.result()

    def _scanned_by_one(self, batches: list[Batch]) -> _Some:
        """Scan batches, with scanners that no other thread uses meanwhile."""
        mine = self._scanners.get()
        try:
            return _Some(batches, [one.scan(batches) for one in mine])
        finally:
            self._scanners.put(mine)


class _Some:
    """Some batches that were read at once, with their lookups in each group."""

    def __init__(self, batches: list[Batch], found: list[Scanned]) -> None:
        self.batches, self._found = batches, found
        self._after = np.zeros(len(batches), dtype=np.int64)
        self._new = [np.zeros(len(batches), dtype=np.int64) for _ in found]
        self._before = [np.empty((2, len(one.rows)), dtype=np.int32) for one in found]

    def enter(self, tiers: Sequence[_Tier], first: int, step: int) -> int:
        """The rows of the first of them are used at the steps from `step` on; says of how many.

        All of these fit, but perhaps for the last. The next plan is that of `first`.
        """
        count = len(self.batches) if len(tiers) == 1 else 1
        all_of = zip(tiers, self._found, self._before, self._new, strict=True)
        for tier, found, before, new in all_of:
            some = found.bounds[: count + 1]
            count = tier.enter(found.rows, some, first, step, before, new, self._after)
        return count

    def fits(self, tiers: Sequence[_Tier]) -> int:
        """How many of them fit, from the first on."""
        counts = len(self.batches)
        for tier, new in zip(tiers, self._new, strict=True):
            counts = min(
                counts, int(np.searchsorted(new.cumsum(), tier.room - tier.wanted, "right"))
            )
        return counts

    def split(self, count: int) -> tuple[_Some, _Some | None]:
        """The first `count`, and the others, if there are any."""
        if count == len(self.batches):
            return self, None
        return self._part(slice(0, count)), self._part(slice(count, len(self.batches)))

    def _part(self, some: slice) -> _Some:
        found = [
            Scanned(one.places, one.rows, one.bounds[some.start : some.stop + 1])
            for one in self._found
        ]
        made = _Some(self.batches[some], found)
        made._after, made._new = self._after[some], [new[some] for new in self._new]
        made._before = self._before
        return made

    def wanted(self, tiers: Sequence[_Tier]) -> list[_Some]:
        """Have slots for their rows; they are as they were, if there are any."""
        for tier, new in zip(tiers, self._new, strict=True):
            tier.wanted += int(new.sum())
        return [self] if self.batches else []

    def emit(self, tiers: Sequence[_Tier], step: int) -> list[Emitted]:
        """Give their rows slots; the first of them is that of step `step`."""
        all_of = zip(tiers, self._found, self._before, strict=True)
        return [tier.emit(one, before, step) for tier, one, before in all_of]

    def plans(self, made: Sequence[Emitted]) -> Iterator[ColdPlaced]:
        """Their plans, with the slots that they were given."""
        groups = map(_plans, made)
        for batch, after, *plans in zip(self.batches, self._after.tolist(), *groups, strict=True):
            yield ColdPlaced(batch, tuple(plans), after)

    def aside(self, tiers: Sequence[_Tier], step: int) -> ColdPlaced:
        """The plan of the first, which does not fit."""
        plans = []
        for tier, one, before in zip(tiers, self._found, self._before, strict=True):
            first = slice(one.bounds[0], one.bounds[1])
            plans.append(tier.aside(one.rows[first], before[:, first], step))
        return ColdPlaced(self.batches[0], tuple(plans), step - 1, aside=True)


class _Emitted:
    """Batches that are given their slots, by a thread of its own where there is one.

    Args:
        some: The batches.
        tiers: The tiers of the groups.
        step: That of the first of them.
        emitter: The thread.
    """

    def __init__(
        self,
        some: _Some,
        tiers: Sequence[_Tier],
        step: int,
        emitter: ThreadPoolExecutor | None,
    ) -> None:
        self.some = some
        self._made: Future[list[Emitted]] = Future()
        if emitter is None:
            self._made.set_result(some.emit(tiers, step))
            return
        self._made = emitter.submit(some.emit, tiers, step)
        for tier in tiers:
            tier.emitting = self._made

    def leave(self, tiers: Sequence[_Tier]) -> None:
        """Have the rows that no later batch uses out of their slots; waits for the thread."""
        for tier, made in zip(tiers, self._made.result(), strict=True):
            tier.wanted -= int(made.evicts[-1])

    def plans(self) -> Iterator[ColdPlaced]:
        """The plans of the batches."""
        return self.some.plans(self._made.result())


class _Aside(NamedTuple):
    """A batch that does not fit."""

    plan: ColdPlaced

    def plans(self) -> Iterator[ColdPlaced]:
        """Its plan."""
        yield self.plan


def _plans(many: Emitted) -> Iterator[ColdPlan]:
    """The plans of batches that were given their slots together."""
    cuts = (pairwise(one.tolist()) for one in (many.lookups, many.fills, many.evicts))
    for at, ((a, b), (c, d), (e, f)) in enumerate(zip(*cuts, strict=True)):
        yield ColdPlan(
            many.places[a:b],
            many.slots[a:b],
            many.fill_rows[c:d],
            many.fill_slots[c:d],
            many.evict_rows[e:f],
            many.evict_slots[e:f],
            many,
            at,
        )


class _Tier:
    """What is known of one group's rows that are not kept.

    Args:
        rows: How many rows the group has.
        room: Its fast tier.
        steps: The most steps of which something must be known at once.
    """

    def __init__(self, rows: int, room: Room, steps: int) -> None:
        self._known = in_memory((rows, 2))
        self._again: Array = np.zeros((steps, 0), dtype=np.uint8)
        self._slot_of: Array = np.zeros((steps, 0), dtype=np.int32)
        first = len(room.keep)
        self._n_free = self.room = room.slots - first
        self._free = np.arange(room.slots - 1, first - 1, -1, dtype=np.int32)
        self.wanted = 0
        self.emitting: Future[list[Emitted]] | None = None

    def enter(
        self,
        rows: Array,
        bounds: Array,
        first: int,
        step: int,
        before: Array,
        new: Array,
        after: Array,
    ) -> int:
        """The rows of some batches are used from `step` on; says of how many that is known."""
        self._widen(int(np.diff(bounds).max(initial=0)))
        room = self.room - self.wanted
        out = (before, self._again, new, after)
        count, _ = cold.enter(rows, bounds, self._known, first, step, room, *out)
        return count

    def _widen(self, lookups: int) -> None:
        """Have room for a batch with so many lookups."""
        more = lookups - self._again.shape[1]
        if more > 0:
            if self.emitting is not None:
                wait((self.emitting,))  # it reads and writes what is replaced here
            wider = ((0, 0), (0, more + more // 4))
            self._again, self._slot_of = (np.pad(a, wider) for a in (self._again, self._slot_of))

    def aside(self, rows: Array, before: Array, step: int) -> ColdPlan:
        """Of a batch that does not fit: those of its rows that are in slots. All leave after it."""
        used, at = before
        lent = (used != cold.NEW) & (used != step)
        rows, slots = rows[lent], self._slot_of[used[lent] % len(self._slot_of), at[lent]]
        self._free[self._n_free : self._n_free + len(slots)] = slots
        self._n_free += len(slots)
        self.wanted -= len(slots)
        none = np.empty(0, dtype=np.int32)
        return ColdPlan(none, none, rows, slots, rows, slots)

    def emit(self, found: Scanned, before: Array, step: int) -> Emitted:
        """Give the rows of some batches slots; the first of them is that of step `step`."""
        bounds = found.bounds
        n = int(bounds[-1] - bounds[0])
        slots, fill_slots, evict_slots = np.empty((3, n), dtype=np.int32)
        fill_rows, evict_rows = np.empty((2, n), dtype=np.int64)
        fills, evicts = np.empty((2, len(bounds)), dtype=np.int64)
        self._n_free = cold.emit(
            found.rows,
            bounds,
            before,
            self._again,
            self._slot_of,
            step,
            self._free,
            self._n_free,
            slots,
            fill_rows,
            fill_slots,
            fills,
            evict_rows,
            evict_slots,
            evicts,
        )
        places, lookups = found.places[bounds[0] : bounds[-1]], bounds - bounds[0]
        return Emitted(
            places, slots, lookups, fill_rows, fill_slots, fills, evict_rows, evict_slots, evicts
        )
