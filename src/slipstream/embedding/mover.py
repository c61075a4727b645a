"""Carries rows between the slow store and the fast tier, as plans say.

One thread reads and writes the slow store, in the order it is told to; the training thread alone
touches the fast tier. Rows for a plan are read ahead of its step, but never before the write-backs
that the plan names have been told to that thread: so no read can overtake the write it depends on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from slipstream.data.copying import copy_rows
from slipstream.data.inputs import Array
from slipstream.embedding.store import RowStore
from slipstream.errors import SlipstreamError
from slipstream.plan import Moves, Plan

BeforeWrite = Callable[[int, Array], None]


@dataclass
class Carried:
    """What was carried so far, counted from plans alone.

    Args:
        lookups: Distinct rows that batches needed.
        hits: Those that were in the fast tier already.
        rows_in: Rows brought into the fast tier.
        rows_out: Rows written back.
        bytes_in: Their bytes, optimizer state counted.
        bytes_out: Their bytes, optimizer state counted.
    """

    lookups: int = 0
    hits: int = 0
    rows_in: int = 0
    rows_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


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
        self.carried = Carried()

    def keep(self, kept: Sequence[Moves]) -> None:
        """Bring in the rows that stay for good, before the first step."""
        for slow, fast, moves in zip(self._slow, self._fast, kept, strict=True):
            fast.records[moves.slots.numpy()] = slow.records[moves.rows.numpy()]

    def prepare(self, plan: Plan) -> None:
        """Read a coming plan's rows ahead; plans come in the order of their steps."""
        self._pending.append(plan)
        self._read_what_may_be()

    def arrive(self, plan: Plan) -> None:
        """Put the rows of a plan into their slots; waits for them."""
        if plan.step not in self._staged:
            raise SlipstreamError(f"The rows of step {plan.step} were not prepared.")
        records = self._staged.pop(plan.step).result()
        for fast, group, read in zip(self._fast, plan.groups, records, strict=True):
            assert group.fill is not None, "plans for two tiers say what comes"
            fast.records[group.fill.slots.numpy()] = read
            self._count(fast, plan, group.fill, group.evict)

    def leave(self, plan: Plan) -> None:
        """Take the rows that leave out of their slots; they are written back meanwhile."""
        left = []
        for fast, group in zip(self._fast, plan.groups, strict=True):
            assert group.evict is not None, "plans for two tiers say what leaves"
            left.append((group.evict.rows.numpy(), fast.records[group.evict.slots.numpy()]))
        while self._writes and self._writes[0].done():
            self._writes.popleft().result()
        self._writes.append(self._thread.submit(self._write, left))
        self._told = plan.step
        self._read_what_may_be()

    def settle(self, resident: Sequence[Moves]) -> None:
        """Write every row in the fast tier back, without sending it away.

        Args:
            resident: The rows that are in it, by group.
        """
        self._land()
        for number, moves in enumerate(resident):
            rows = moves.rows.numpy()
            self._before_write(number, rows)
            self._slow[number].records[rows] = self._fast[number].records[moves.slots.numpy()]

    def close(self) -> None:
        """Finish what is under way and end the thread."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _land(self) -> None:
        while self._writes:
            self._writes.popleft().result()

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

    def _count(self, fast: RowStore, plan: Plan, fill: Moves, evict: Moves | None) -> None:
        number = self._fast.index(fast)
        touched = plan.groups[number].touched
        needed = len(touched.rows) if touched is not None else 0
        size = fast.records.shape[1] * fast.records.itemsize
        gone = len(evict.rows) if evict is not None else 0
        self.carried.lookups += needed
        self.carried.hits += needed - len(fill.rows)
        self.carried.rows_in += len(fill.rows)
        self.carried.rows_out += gone
        self.carried.bytes_in += len(fill.rows) * size
        self.carried.bytes_out += gone * size
