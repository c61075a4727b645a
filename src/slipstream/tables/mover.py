"""Carries rows between the slow store and the fast tier, as plans name them.

One thread reads and writes the slow store, in the order of its queue; the training thread alone
touches the fast tier. Rows for a plan are read ahead of its step, but never before the write-backs
that the plan names are in that queue: so no read can overtake the write it depends on.
A step in the slow tier first waits for that thread, then copies the rows that it needs there.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from slipstream.arrays import Array
from slipstream.data.copying import copy_rows
from slipstream.errors import SlipstreamError
from slipstream.tables.plan import Plan, RowSlots
from slipstream.tables.store import RowStore

BeforeWrite = Callable[[int, Array], None]


@dataclass
class Clock:
    """What the training thread spends on moving rows."""

    seconds: float = 0.0  # putting rows into their slots and taking them out, waits among it
    waits: int = 0  # steps whose rows were still on their way
    waited: float = 0.0  # seconds of these waits


class Mover:
    """Moves rows between a slow store and a fast tier of the same groups."""

    def __init__(
        self, slow: Sequence[RowStore], fast: Sequence[RowStore], before_write: BeforeWrite
    ) -> None:
        self._slow, self._fast, self._before_write = slow, fast, before_write
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="slipstream-row-thread")
        self._pending: deque[Plan] = deque()
        self._staged: dict[int, Future[list[Array]]] = {}
        self._writes: deque[Future[None]] = deque()
        self._last_step = 0
        self._failure: BaseException | None = None
        self.clock = Clock()
        self._row_of = [np.full(len(store.records), -1, dtype=np.int64) for store in fast]

    def keep(self, rows_by_group: Sequence[RowSlots], step: int = 0) -> None:
        """Bring in the rows that are there before the first step; `step` steps are done."""
        self._last_step = step
        for number, moves in enumerate(rows_by_group):
            self._put(number, moves, self._slow[number].records[moves.rows])

    def prepare(self, plan: Plan) -> None:
        """Read a coming plan's rows ahead; plans come in the order of their steps."""
        self._pending.append(plan)
        self._read_ready_plans()

    def arrive(self, plan: Plan) -> None:
        """Put the rows of a plan into their slots; waits for them."""
        if plan.step not in self._staged:
            raise SlipstreamError(f"The rows of step {plan.step} were not prepared.")
        with self._timed():
            records = self._wait_for(self._staged[plan.step])
            # The writes that these rows wait for are done.
            self._raise_failure(wait=plan.oversized_batch)
            for number, (group, read) in enumerate(zip(plan.groups, records, strict=True)):
                if group.fill is not None:
                    self._put(number, group.fill, read)
                if group.borrowed is not None:  # in the slow tier for a step; current there now
                    slots = group.borrowed.slots
                    self._write_back(number, group.borrowed.rows, slots)
                    self._row_of[number][slots] = -1
            del self._staged[plan.step]

    def leave(self, plan: Plan) -> None:
        """Take the rows that leave out of their slots; they are written back meanwhile."""
        left, evicted = [], []
        with self._timed():
            for number, group in enumerate(plan.groups):
                if group.borrowed is not None:
                    rows = group.borrowed.rows
                    self._put(number, group.borrowed, self._slow[number].records[rows])
                assert group.evict is not None, "plans for two tiers name the rows that leave"
                evicted.append(group.evict.slots)
                left.append((group.evict.rows, self._fast[number].records[evicted[-1]]))
            self._raise_failure()
            self._writes.append(self._thread.submit(self._write, left))
            for row_of, slots in zip(self._row_of, evicted, strict=True):
                row_of[slots] = -1  # not before the write is sure: an interrupt loses no row
            self._last_step = plan.step
            self._read_ready_plans()

    def flush(self) -> None:
        """Write every row in the fast tier back, without sending it away."""
        self._raise_failure(wait=True)
        for number, row_of in enumerate(self._row_of):
            (slots,) = np.nonzero(row_of >= 0)
            self._write_back(number, row_of[slots], slots)

    def close(self) -> None:
        """Finish what is under way and end the thread."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _raise_failure(self, wait: bool = False) -> None:
        """Raise the error of a write-back, for good: rows are lost, nothing must be saved."""
        while self._failure is None and self._writes and (wait or self._writes[0].done()):
            self._failure = self._writes[0].exception()
            self._writes.popleft()
        if self._failure is not None:
            raise self._failure

    def _wait_for(self, staged: Future[list[Array]]) -> list[Array]:
        """The rows that were read, with the time counted that they are waited for."""
        if staged.done():
            return staged.result()
        begun = time.perf_counter()
        try:
            return staged.result()
        finally:
            self.clock.waits += 1
            self.clock.waited += time.perf_counter() - begun

    def _write_back(self, number: int, rows: Array, slots: Array) -> None:
        self._before_write(number, rows)
        copy_rows(self._fast[number].records, slots, rows, self._slow[number].records)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.clock.seconds += time.perf_counter() - begun

    def _put(self, number: int, moves: RowSlots, records: Array) -> None:
        slots = moves.slots
        copy_rows(records, np.arange(len(slots)), slots, self._fast[number].records)
        self._row_of[number][slots] = moves.rows

    def _read_ready_plans(self) -> None:
        while self._pending and self._pending[0].after <= self._last_step:
            plan = self._pending.popleft()
            self._staged[plan.step] = self._thread.submit(self._read, plan)

    def _read(self, plan: Plan) -> list[Array]:
        records = []
        for slow, group in zip(self._slow, plan.groups, strict=True):
            rows = np.empty(0, np.int64) if group.fill is None else group.fill.rows
            staged = np.empty((len(rows), slow.records.shape[1]), dtype=slow.records.dtype)
            copy_rows(slow.records, rows, np.arange(len(rows)), staged)
            records.append(staged)
        return records

    def _write(self, left: list[tuple[Array, Array]]) -> None:
        for number, (rows, records) in enumerate(left):
            if len(rows):
                self._before_write(number, rows)
                copy_rows(records, np.arange(len(rows)), rows, self._slow[number].records)
