"""Plans for a device that finds kept rows by itself: the host plans the other rows alone."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from queue import Empty, SimpleQueue
from typing import NamedTuple

import numpy as np

from slipstream.background import BackgroundIterator
from slipstream.data.batch import Batch, ReadBlock
from slipstream.errors import ConfigError
from slipstream.gpu.planning.cold_lookups import Scanned, Scanner, kept_of, read_at_once, read_of
from slipstream.gpu.planning.cold_tier import ColdPlan, ColdTier, plans_of
from slipstream.pipeline.place.tier import TierSize
from slipstream.tables.plan import Emitted
from slipstream.tables.spec import Layout

_PENDING = 2  # times that batches have no slots yet while the window goes on behind them


class ColdPlaced(NamedTuple):
    """A batch, its plan for each group, and the step whose write-backs must come before it.

    A batch that does not fit beside the kept rows, even alone, is an `oversized_batch`: what its
    plans fill are the rows that it needs and that are in slots, except for kept ones.
    """

    batch: Batch
    groups: tuple[ColdPlan, ...]
    after: int
    oversized_batch: bool = False


class ColdPlanner:
    """Plans which rows are brought into the fast tier, and which leave it, looking ahead.

    It decides as `Tiered` does with kept rows that stay the same, except where several batches were
    read at once: the window moves on by as many, and where room is short they wait until all of
    them fit. So rows may leave earlier, but hardly where the window is several times as long. It
    leaves it to the device to find the slots of kept rows and the distinct rows of a batch, which
    makes it several times faster.

    `window` is the most batches to look ahead, the current one among them, and `at_once` the most
    that enter it at once. With `threads`, threads take batches, look ahead and hand out slots; the
    plans are the same.
    """

    def __init__(
        self,
        layout: Layout, singles: Sequence[str], tier_sizes: Sequence[TierSize], window: int,
        threads: bool = False, at_once: int = 1,
    ) -> None:  # fmt: skip
        if window < 1:
            raise ConfigError(f"The window is {window} batches; it must be at least 1.")
        self._at_once = min(at_once, window)
        self._tier_sizes, self._window, self._threads = tier_sizes, window, threads
        self.kept_rows = [
            kept_of(layout, group, singles, room.keep)
            for group, room in zip(layout.groups, tier_sizes, strict=True)
        ]
        self._rows = [group.rows for group in layout.groups]
        self._columns = [
            [layout.features[n].column for n in group.features] for group in layout.groups
        ]
        self._scanners: SimpleQueue[list[Scanner]] = SimpleQueue()

    def on_read(self, read: ReadBlock) -> list[Scanned]:
        """The lookups of rows that are not kept, in each group; any thread may call it."""
        try:
            scanners = self._scanners.get_nowait()
        except Empty:
            pairs = zip(self.kept_rows, self._columns, strict=True)
            scanners = [Scanner(rows, names) for rows, names in pairs if rows is not None]
        try:
            return [scanner.scan(read) for scanner in scanners]
        finally:
            self._scanners.put(scanners)

    def place(self, batches: Iterable[Batch], step: int) -> Generator[ColdPlaced, None, None]:
        """What comes before each batch and what leaves after it; the first has number `step`."""
        steps = self._window + _PENDING * self._at_once  # not one fewer: rows would mix
        pending = _Pending()
        pairs = zip(self._rows, self._tier_sizes, strict=True)
        tiers = [ColdTier(rows, room, steps, pending.settle) for rows, room in pairs]
        with ExitStack() as stack:
            reads = read_at_once(batches, self._at_once)
            coming: Iterator[_ReadTogether] = map(self._scanned, reads)
            if self._threads:
                coming = stack.enter_context(BackgroundIterator(coming, 1, "batches"))
            placed = self._placed(tiers, coming, step, pending)
            if self._threads:
                placed = stack.enter_context(BackgroundIterator(placed, _PENDING, "window"))
                placed = stack.enter_context(BackgroundIterator(_emitted(placed), 1, "slots"))
            for some in placed:
                yield from some.plans()

    def _placed(
        self, tiers: Sequence[ColdTier], coming: Iterator[_ReadTogether], step: int,
        pending: _Pending,
    ) -> Iterator[_Emitting | _OversizedBatch]:  # fmt: skip
        """Batches whose slots are still to be chosen: meanwhile the window moves on behind them."""
        window: deque[_ReadTogether] = deque()
        waiting: _ReadTogether | None = None  # batches for which there is no room yet
        rest: _ReadTogether | None = None  # batches that have not entered yet
        number = last = step  # of the next plan, and of the next batch to enter
        while True:
            while waiting is None:
                ahead = last - number
                if ahead and ahead + self._at_once > self._window:
                    break
                some = rest or next(coming, None)
                if some is None:
                    break
                some, rest = some.split(some.enter(tiers, number, last))
                last += len(some.batches)
                fit, waiting = some.split(some.fits(tiers, bool(window)))
                window += fit.wanted(tiers)
            if waiting is not None:
                fit, waiting = waiting.split(waiting.fits(tiers, bool(window)))
                window += fit.wanted(tiers)
            if window:
                some = window.popleft()
                some.leave(tiers, number)
                emitting = _Emitting(some, tiers, number)
                number += len(some.batches)
                pending.add(emitting)
                yield emitting
            elif waiting is not None:
                pending.settle()
                yield _OversizedBatch(waiting.oversized_batch(tiers, number))
                number, waiting = number + 1, None
            else:
                return

    def _scanned(self, batches: list[Batch]) -> _ReadTogether:
        """Batches that were read at once, with their lookups of rows that are not kept."""
        read = read_of(batches)
        return _ReadTogether(batches, self.on_read(read) if read.seen is None else read.seen)


class _ReadTogether:
    """Batches that were read at once, with their lookups in each group."""

    def __init__(self, batches: list[Batch], lookups: list[Scanned]) -> None:
        self.batches, self._lookups = batches, lookups
        self._whole = False  # whether all that was read together has entered at once
        self._after = np.zeros(len(batches), dtype=np.int64)
        self._new = [np.zeros(len(batches), dtype=np.int64) for _ in lookups]
        self._before = [np.empty((2, len(scanned.rows)), dtype=np.int32) for scanned in lookups]

    def enter(self, tiers: Sequence[ColdTier], first: int, step: int) -> int:
        """The rows of the first batches are used from step `step` on; returns how many entered.

        Where all of them fit an empty tier all enter. Else those enter that fit, and perhaps one
        more. The next plan is that of step `first`.
        """
        pairs = zip(tiers, self._lookups, strict=True)
        self._whole = all(own.bounds[-1] - own.bounds[0] <= tier.room for tier, own in pairs)
        # One group may have room where another has none: then batches enter one by one.
        count = len(self.batches) if self._whole or len(tiers) == 1 else 1
        all_of = zip(tiers, self._lookups, self._before, self._new, strict=True)
        for tier, own, before, new in all_of:
            some = own.bounds[: count + 1]
            room = tier.room if self._whole else tier.room - tier.wanted
            count = tier.enter(own.rows, some, first, step, room, before, new, self._after)
        return count

    def fits(self, tiers: Sequence[ColdTier], others: bool) -> int:
        """How many of them fit, from the first on.

        Batches that were read together are planned and carried together, which takes far less time.
        So as long as there are `others` that leave before them, those that entered all at once wait
        until there is room for all. Then there will be: they fit an empty tier.
        """
        counts = len(self.batches)
        for tier, new in zip(tiers, self._new, strict=True):
            fit = np.searchsorted(new.cumsum(), tier.room - tier.wanted, "right")
            counts = min(counts, int(fit))
        return 0 if others and self._whole and counts < len(self.batches) else counts

    def split(self, count: int) -> tuple[_ReadTogether, _ReadTogether | None]:
        """The first `count`, and the others, if there are any."""
        if count == len(self.batches):
            return self, None
        return self._part(slice(0, count)), self._part(slice(count, len(self.batches)))

    def _part(self, some: slice) -> _ReadTogether:
        bounds = slice(some.start, some.stop + 1)
        lookups = [Scanned(own.places, own.rows, own.bounds[bounds]) for own in self._lookups]
        part = _ReadTogether(self.batches[some], lookups)
        part._after, part._new = self._after[some], [new[some] for new in self._new]
        part._before, part._whole = self._before, self._whole
        return part

    def wanted(self, tiers: Sequence[ColdTier]) -> list[_ReadTogether]:
        """Count the slots that they need; returns a list with them, or none if they are empty."""
        for tier, new in zip(tiers, self._new, strict=True):
            tier.wanted += int(new.sum())
        return [self] if self.batches else []

    def leave(self, tiers: Sequence[ColdTier], step: int) -> None:
        """Count their rows that no later batch uses; the first batch is that of step `step`.

        How many is known before they have slots, so that the window need not wait for these.
        """
        for tier, own, before in zip(tiers, self._lookups, self._before, strict=True):
            tier.wanted -= tier.leaving(own, before, step)

    def emit(self, tiers: Sequence[ColdTier], step: int) -> list[Emitted]:
        """Give their rows slots; the first batch is that of step `step`."""
        all_of = zip(tiers, self._lookups, self._before, strict=True)
        return [tier.emit(own, before, step) for tier, own, before in all_of]

    def plans(self, emitted: Sequence[Emitted]) -> Iterator[ColdPlaced]:
        """Their plans, with the slots of their rows."""
        groups = map(plans_of, emitted)
        for batch, after, *plans in zip(self.batches, self._after.tolist(), *groups, strict=True):
            yield ColdPlaced(batch, tuple(plans), after)

    def oversized_batch(self, tiers: Sequence[ColdTier], step: int) -> ColdPlaced:
        """The plan of the first, which does not fit."""
        plans = []
        for tier, own, before in zip(tiers, self._lookups, self._before, strict=True):
            first = slice(own.bounds[0], own.bounds[1])
            plans.append(tier.oversized_batch(own.rows[first], before[:, first], step))
        return ColdPlaced(self.batches[0], tuple(plans), step - 1, oversized_batch=True)


class _Emitting:
    """Batches whose rows get slots, once; the first of them is that of step `step`."""

    def __init__(self, some: _ReadTogether, tiers: Sequence[ColdTier], step: int) -> None:
        self.some, self._tiers, self._step = some, tiers, step
        self._slots: list[Emitted] | None = None
        self._error: BaseException | None = None
        self._one_at_a_time = threading.Lock()

    def emitted(self) -> list[Emitted]:
        """The slots of each group; waits if another thread chooses them."""
        with self._one_at_a_time:
            if self._error is not None:  # some slots may have been handed out: never again
                raise self._error
            if self._slots is None:
                try:
                    self._slots = self.some.emit(self._tiers, self._step)
                except BaseException as error:
                    self._error = error
                    raise
            return self._slots

    def plans(self) -> Iterator[ColdPlaced]:
        """The plans of the batches."""
        return self.some.plans(self.emitted())


class _Pending:
    """Batches that may still have no slots, the first of them first."""

    def __init__(self) -> None:
        self._some: deque[_Emitting] = deque()

    def add(self, emitting: _Emitting) -> None:
        """Add some; where there are too many, wait for the first."""
        self._some.append(emitting)
        while len(self._some) > _PENDING:
            self._some.popleft().emitted()

    def settle(self) -> None:
        """Wait until all have their slots."""
        while self._some:
            self._some.popleft().emitted()


def _emitted(
    placed: Iterator[_Emitting | _OversizedBatch],
) -> Iterator[_Emitting | _OversizedBatch]:
    """The same batches, with their slots."""
    for some in placed:
        if isinstance(some, _Emitting):
            some.emitted()
        yield some


class _OversizedBatch(NamedTuple):
    """A batch that does not fit."""

    plan: ColdPlaced

    def plans(self) -> Iterator[ColdPlaced]:
        """Its plan."""
        yield self.plan
