"""Carries rows between the slow store and the fast tier, as plans say.

One thread reads and writes the slow store, in the order it is told to; the training thread alone
touches the fast tier. Rows for a plan are read ahead of its step, but never before the write-backs
that the plan names have been told to that thread: so no read can overtake the write it depends on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from slipstream.data.copying import copy_rows
from slipstream.data.inputs import Array
from slipstream.embedding.store import RowStore
from slipstream.errors import SlipstreamError
from slipstream.plan import Moves, Plan

BeforeWrite = Callable[[int, Array], None]


class Mover:
    """Moves rows between a slow store and a fast tier of the same groups.

    Args:
        slow: Every row, group by group.
        fast: The slots of the fast tier.
        before_write: Told the group and the rows before rows of the slow store are changed.
    """

    def __init__(
        self, slow: Sequence[RowStore], fast: Sequence[RowStore], before_write: BeforeWrite
    ) -> None:
        self._slow, self._fast, self._before_write = slow, fast, before_write
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="slipstream-mover")
        self._pending: deque[Plan] = deque()
        self._staged: dict[int, Future[list[Array]]] = {}
        self._writes: deque[Future[None]] = deque()
        self._told = 0
        self._failure: BaseException | None = None
        self.kept_rows = 0
        self._row_of = [np.full(len(one.records), -1, dtype=np.int64) for one in fast]

    def keep(self, kept: Sequence[Moves]) -> None:
        """Bring in the rows that stay for good, before the first step."""
        self.kept_rows = sum(len(moves.rows) for moves in kept)
        for number, moves in enumerate(kept):
            self._put(number, moves, self._slow[number].records[moves.rows.numpy()])

    def prepare(self, plan: Plan) -> None:
        """Read a coming plan's rows ahead; plans come in the order of their steps."""
        self._pending.append(plan)
        self._read_what_may_be()

    def arrive(self, plan: Plan) -> None:
        """Put the rows of a plan into their slots; waits for them."""
        if plan.step not in self._staged:
            raise SlipstreamError(f"The rows of step {plan.step} were not prepared.")
        records = self._staged[plan.step].result()
        self._raise_what_failed()  # every write that these rows wait for was told before the read
        for number, (group, read) in enumerate(zip(plan.groups, records, strict=True)):
            assert group.fill is not None, "plans for two tiers say what comes"
            self._put(number, group.fill, read)
        del self._staged[plan.step]

    def leave(self, plan: Plan) -> None:
        """Take the rows that leave out of their slots; they are written back meanwhile."""
        left = []
        for number, group in enumerate(plan.groups):
            assert group.evict is not None, "plans for two tiers say what leaves"
            slots = group.evict.slots.numpy()
            left.append((group.evict.rows.numpy(), self._fast[number].records[slots]))
        self._raise_what_failed()
        self._writes.append(self._thread.submit(self._write, left))
        for row_of, group in zip(self._row_of, plan.groups, strict=True):
            assert group.evict is not None, "plans for two tiers say what leaves"
            row_of[group.evict.slots.numpy()] = -1
        self._told = plan.step
        self._read_what_may_be()

    def settle(self) -> None:
        """Write every row in the fast tier back, without sending it away."""
        self._raise_what_failed(wait=True)
        for number, row_of in enumerate(self._row_of):
            (slots,) = np.nonzero(row_of >= 0)
            rows = row_of[slots]
            self._before_write(number, rows)
            copy_rows(self._fast[number].records, slots, rows, self._slow[number].records)

    def close(self) -> None:
        """Finish what is under way and end the thread."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _raise_what_failed(self, wait: bool = False) -> None:
        """Raise what a write-back failed with, for good: rows are lost, nothing must be saved."""
        while self._failure is None and self._writes and (wait or self._writes[0].done()):
            self._failure = self._writes[0].exception()
            self._writes.popleft()
        if self._failure is not None:
            raise self._failure

    def _put(self, number: int, moves: Moves, records: Array) -> None:
        slots = moves.slots.numpy()
        copy_rows(records, np.arange(len(slots)), slots, self._fast[number].records)
        self._row_of[number][slots] = moves.rows.numpy()

    def _read_what_may_be(self) -> None:
        while self._pending and self._pending[0].after <= self._told:
            plan = self._pending.popleft()
            self._staged[plan.step] = self._thread.submit(self._read, plan)

    def _read(self, plan: Plan) -> list[Array]:
        records = []
        for slow, group in zip(self._slow, plan.groups, strict=True):
            assert group.fill is not None, "plans for two tiers say what comes"
            rows = group.fill.rows.numpy()
            staged = np.empty((len(rows), slow.records.shape[1]), dtype=slow.records.dtype)
            copy_rows(slow.records, rows, np.arange(len(rows)), staged)
            records.append(staged)
        return records

    def _write(self, left: list[tuple[Array, Array]]) -> None:
        for number, (rows, records) in enumerate(left):
            if len(rows):
                self._before_write(number, rows)
                copy_rows(records, np.arange(len(rows)), rows, self._slow[number].records)
