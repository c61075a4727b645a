"""Carries plans and rows to a device and rows back from it, beside the computation.

One thread packs plans, one reads rows of the slow store and sends them with their plan, and one
writes rows back as they come. Rows for a plan are read only when the write-backs that it names
have landed. Copies go in lanes of their own, between blocks that nothing else uses; only the
computation touches the slots.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch

from slipstream.data.inputs import Array
from slipstream.embedding.device.arena import Arena
from slipstream.embedding.device.blocks import Block, Blocks
from slipstream.embedding.device.gather import Pool
from slipstream.embedding.device.group_packing import tiers_of
from slipstream.embedding.device.lanes import Lane, Mark
from slipstream.embedding.device.packing import Packing, needs, room_for
from slipstream.embedding.device.sections import Section, Sections
from slipstream.embedding.mover import BeforeWrite, Clock
from slipstream.embedding.store import RowStore
from slipstream.errors import SlipstreamError
from slipstream.plan import Moves, Plan

SayHow = Callable[[float, int, Array], None]
"""Writes down how dense weights move, with a factor of their learning rate in that step."""
_AT_ONCE = 1 << 18


class Sent(NamedTuple):
    """A plan on its way to the device, with the rows that come for it."""

    packing: Packing
    block: Block
    there: Mark


class Done(NamedTuple):
    """What a step said of its batch.

    Args:
        loss: Its loss.
        logits: Of its inputs.
        plan: Its plan.
        needs: For each group the distinct rows that moved.
    """

    loss: float
    logits: torch.Tensor
    plan: Plan
    needs: tuple[int, ...]


class Carrier:
    """Moves plans and rows between the host and the slots of a device.

    Args:
        slow: Every row, group by group, on the host.
        arena: The slots.
        before_write: Told the group and the rows before rows of the slow store are changed.
        number: float32, or float64 for checks: of labels, weights and dense values.
        weights: How many numbers say how dense weights move.
        how: Writes them.
    """

    def __init__(
        self,
        slow: Sequence[RowStore],
        arena: Arena,
        before_write: BeforeWrite,
        number: torch.dtype = torch.float32,
        weights: int = 0,
        how: SayHow | None = None,
    ) -> None:
        self._slow, self._arena, self._before_write = slow, arena, before_write
        self._number, self._weights, self._how = number, weights, how
        self._packer, self._reader, self._writer = (
            ThreadPoolExecutor(1, thread_name_prefix=f"slipstream-{name}")
            for name in ("packer", "reader", "writer")
        )
        self._gathers, self._scatters = Pool("gather"), Pool("scatter")
        self.compute = Lane(arena.device, current=True)
        self._inward, self._outward = Lane(arena.device), Lane(arena.device)
        self._in, self._out = Blocks(arena.device), Blocks(arena.device)
        self._packing: Packing | None = None
        self._sent: dict[int, Future[Sent]] = {}
        self._writes: list[Future[Done]] = []
        self._landed, self._changed = 0, threading.Condition()
        self._stopped = False
        self._failure: BaseException | None = None
        self.clock = Clock()
        self._row_of = [np.full(len(one), -1, dtype=np.int64) for one in arena.records]

    def keep(self, kept: Sequence[Moves], step: int = 0) -> None:
        """Bring in the rows that are there before the first step; `step` steps are done."""
        self._landed = step
        self._arena.number(kept)
        for number, moves in enumerate(kept):
            self._put(number, moves)

    def prepare(self, plan: Plan, factor: float) -> None:
        """Send a coming plan and its rows ahead; plans come in the order of their steps.

        Args:
            plan: The plan.
            factor: Of all learning rates in its step.
        """
        if plan.aside:
            return
        packed = self._packer.submit(self._pack, plan, factor)
        self._sent[plan.step] = self._reader.submit(self._read, plan, packed)

    def arrive(self, plan: Plan) -> Sent:
        """The packed plan, on the device before anything that is computed from here on."""
        if plan.step not in self._sent:
            raise SlipstreamError(f"The rows of step {plan.step} were not prepared.")
        begun, ready = time.perf_counter(), self._sent[plan.step].done()
        sent = self._sent[plan.step].result()
        if not ready:
            self.clock.waits += 1
            self.clock.waited += time.perf_counter() - begun
        self.clock.seconds += time.perf_counter() - begun
        self.raise_what_failed()
        sent.there.before_more_in(self.compute)
        del self._sent[plan.step]
        return sent

    def arrived(self, sent: Sent) -> None:
        """Its block was read: it may be used again after what is computed up to here."""
        self._in.give_back(sent.block, self.compute.mark())

    def leave(self, plan: Plan, out: Sections, block: torch.Tensor) -> None:
        """Take what a step gives, rows that leave among it; they are written back meanwhile."""
        given = self._out.take(out)
        given.free.before_more_in(self.compute)
        with self.compute.used():
            given.device.copy_(block)
        self.compute.mark().before_more_in(self._outward)
        with self._outward.used():
            given.host.copy_(given.device, non_blocking=True)
        there = self._outward.mark()
        self._writes.append(self._writer.submit(self._write, plan, given, there))

    def done(self, *, wait: bool = False) -> list[Done]:
        """The steps whose results have come since the last time; `wait` has all of them come."""
        finished = []
        while self._failure is None and self._writes and (wait or self._writes[0].done()):
            self._failure = self._writes[0].exception()
            first = self._writes.pop(0)
            if self._failure is None:
                finished.append(first.result())
        self.raise_what_failed()
        return finished

    def raise_what_failed(self) -> None:
        """Raise what a write-back failed with, for good: rows are lost, nothing must be saved."""
        if self._failure is not None:
            raise self._failure

    def settle(self) -> None:
        """Write every row on the device back, without sending it away; results have all come."""
        self._check_quiet()
        for number, row_of in enumerate(self._row_of):
            (slots,) = np.nonzero(row_of >= 0)
            self._take(number, row_of[slots], slots)

    def lend(self, plan: Plan) -> None:
        """Have the rows on the host that a step aside needs; results have all come."""
        self._check_quiet()
        for number, group in enumerate(plan.groups):
            if group.lent is not None:
                self._take(number, group.lent.rows.numpy(), group.lent.slots.numpy())

    def copy_in(self, rows: Sequence[Array], arena: Arena) -> None:
        """Copy rows of the slow store to the first slots of another arena."""
        for slow, some, records in zip(self._slow, rows, arena.records, strict=True):
            records.copy_(torch.from_numpy(slow.records[some]))

    def copy_out(self, rows: Sequence[Array], arena: Arena) -> None:
        """Copy the slots of another arena back to the slow store."""
        for number, (some, records) in enumerate(zip(rows, arena.records, strict=True)):
            self._before_write(number, some)
            self._scatters.scatter(records.cpu().numpy(), some, self._slow[number].records)

    def take_back(self, plan: Plan) -> None:
        """After a step aside: lent rows are in their slots again, and those that leave are gone."""
        for number, group in enumerate(plan.groups):
            if group.lent is not None:
                self._put(number, group.lent)
            if group.evict is not None:
                self._take(number, group.evict.rows.numpy(), group.evict.slots.numpy())
                self._row_of[number][group.evict.slots.numpy()] = -1
        with self._changed:
            self._landed = plan.step
            self._changed.notify_all()

    def _check_quiet(self) -> None:
        if self._writes:
            raise SlipstreamError("The results of all steps must have come before rows settle.")
        self.raise_what_failed()

    def _take(self, number: int, all_rows: Array, slots: Array) -> None:
        """Copy rows in slots to the slow store, now."""
        records = self._arena.records[number]
        for begin in range(0, len(slots), _AT_ONCE):
            some = torch.from_numpy(slots[begin : begin + _AT_ONCE]).long().to(records.device)
            rows = all_rows[begin : begin + _AT_ONCE]
            read = records[some].cpu().numpy()
            self._before_write(number, rows)
            self._scatters.scatter(read, rows, self._slow[number].records)

    def _put(self, number: int, moves: Moves) -> None:
        """Copy rows of the slow store into slots, now."""
        records = self._arena.records[number]
        for begin in range(0, len(moves.rows), _AT_ONCE):
            rows = moves.rows[begin : begin + _AT_ONCE].numpy()
            slots = moves.slots[begin : begin + _AT_ONCE].long().to(records.device)
            read = torch.from_numpy(self._slow[number].records[rows])
            records[slots] = read.to(records.device)
        self._row_of[number][moves.slots.numpy()] = moves.rows.numpy()

    def close(self) -> None:
        """Finish what is under way and end the threads."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for pool in (self._packer, self._reader, self._writer):
            pool.shutdown(wait=True, cancel_futures=True)
        self._gathers.close()
        self._scatters.close()

    def packing_for(self, plan: Plan, before: Packing | None = None) -> Packing:
        """How to pack a plan: as before, if it fits."""
        needed = needs(plan)
        if before is not None and before.fits(needed):
            return before
        return Packing(
            self._arena.layout,
            plan.capacity,
            plan.dense.shape[1],
            room_for(needed, None if before is None else before.room),
            self._number,
            self._weights,
            0 if plan.ids is None else plan.ids.shape[1],
        )

    def pack_into(
        self, packing: Packing, plan: Plan, factor: float, arrays: dict[str, Array]
    ) -> None:
        """Write a plan into the arrays of a block, all but the rows that come."""
        packing.pack(plan, factor, arrays)
        if self._how is not None:
            self._how(factor, plan.step, arrays["weights"])

    def _pack(self, plan: Plan, factor: float) -> tuple[Packing, Block]:
        packing = self._packing = self.packing_for(plan, self._packing)
        block = self._in.take(packing.sections)
        block.free.wait()
        self.pack_into(packing, plan, factor, block.arrays)
        return packing, block

    def _read(self, plan: Plan, packed: Future[tuple[Packing, Block]]) -> Sent:
        packing, block = packed.result()
        with self._changed:
            self._changed.wait_for(lambda: self._landed >= plan.after or self._stopped)
            if self._stopped:
                raise SlipstreamError(f"The rows of step {plan.step} are not read any more.")
        for number, (slow, group) in enumerate(zip(self._slow, plan.groups, strict=True)):
            rows = tiers_of(group)[0].rows.numpy()
            self._gathers.gather(slow.records, rows, block.arrays[f"{number}.staged"])
        with self._inward.used():
            block.device.copy_(block.host, non_blocking=True)
        return Sent(packing, block, self._inward.mark())

    def _write(self, plan: Plan, given: Block, there: Mark) -> Done:
        try:
            there.wait()
            for number, group in enumerate(plan.groups):
                fill, evict = tiers_of(group)
                rows, row_of = evict.rows.numpy(), self._row_of[number]
                if len(rows):
                    left = given.arrays[f"{number}.left"]
                    self._before_write(number, rows)
                    self._scatters.scatter(left, rows, self._slow[number].records)
                row_of[fill.slots.numpy()] = fill.rows.numpy()
                row_of[evict.slots.numpy()] = -1
            logits = torch.from_numpy(given.arrays["logits"].copy())
            moved = tuple(int(given.arrays[f"{n}.touched"][0]) for n in range(len(plan.groups)))
            made = Done(float(given.arrays["loss"][0]), logits, plan, moved)
        except BaseException:
            with self._changed:
                self._stopped = True
                self._changed.notify_all()
            raise
        self._out.give_back(given, Mark())
        with self._changed:
            self._landed = plan.step
            self._changed.notify_all()
        return made


def given_by(packing: Packing, arena: Arena) -> Sections:
    """What a step gives: its loss, the logits of its inputs, and the rows that leave."""
    made = {
        "loss": Section(packing.number, (1,)),
        "logits": Section(packing.number, (packing.inputs,)),
    }
    for number, shape in enumerate(arena.shapes):
        made[f"{number}.touched"] = Section(torch.int32, (1,))
        made[f"{number}.left"] = Section(
            torch.int32, (packing.room[f"{number}.evict"], shape.words)
        )
    return Sections(made)
