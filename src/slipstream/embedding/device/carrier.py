"""Carries plans and rows to a device and rows back from it, beside the computation.

Who prepares a plan packs it. One thread reads rows of the slow store and sends them with their
plan, and one writes rows back as they come. Rows for a plan are read only when the write-backs that
it names have landed. Plans go to the device in a lane of their own, between blocks that nothing
else uses; only the computation touches the slots.

Each thread holds the interpreter lock for moments only: a step of a GPU takes a fraction of a
millisecond, and what four threads of Python do for it must fit into that, one after the other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import NamedTuple

import torch

from slipstream.data.inputs import Array
from slipstream.embedding.device.arena import Arena
from slipstream.embedding.device.blocks import Block, Blocks
from slipstream.embedding.device.gather import Pool
from slipstream.embedding.device.group_packing import tiers_of
from slipstream.embedding.device.held import Held
from slipstream.embedding.device.lanes import Lane, Mark
from slipstream.embedding.device.packing import Packing, needs, room_for
from slipstream.embedding.device.sections import Section, Sections
from slipstream.embedding.mover import BeforeWrite, Clock
from slipstream.embedding.store import RowStore
from slipstream.errors import SlipstreamError
from slipstream.plan import Moves, Plan

SayHow = Callable[[float, int, Array], None]
"""Writes down how dense weights move, with a factor of their learning rate in that step."""


class Sent(NamedTuple):
    """A plan on its way to the device, with the rows that come for it."""

    plan: Plan
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
        self._arena, self.held = arena, Held(slow, arena, before_write)
        self._number, self._weights, self._how = number, weights, how
        self.compute, self._inward = Lane(arena.device, current=True), Lane(arena.device)
        self._in, self._out = Blocks(arena.device), Blocks(arena.device, paired=False)
        self._packing: Packing | None = None
        self._coming: set[int] = set()
        self._to_read: SimpleQueue[Sent | None] = SimpleQueue()
        self._sent: SimpleQueue[Sent | BaseException] = SimpleQueue()
        self._to_write: SimpleQueue[tuple[Plan, Block, Mark] | None] = SimpleQueue()
        self._done: SimpleQueue[Done | BaseException] = SimpleQueue()
        self._under_way = 0
        self._landed, self._changed = 0, threading.Condition()
        self._stopped = False
        self._failure: BaseException | None = None
        self._gathers = Pool("gather")
        self.clock = Clock()
        self._threads = [
            threading.Thread(target=work, name=f"slipstream-{name}", daemon=True)
            for name, work in (("reader", self._read_all), ("writer", self._write_all))
        ]
        for thread in self._threads:
            thread.start()

    def keep(self, kept: Sequence[Moves], step: int = 0) -> None:
        """Bring in the rows that are there before the first step; `step` steps are done."""
        self.landed(step)
        self._arena.number(kept)
        for number, moves in enumerate(kept):
            self.held.put(number, moves)

    def prepare(self, plan: Plan, factor: float, number: int) -> None:
        """Pack a coming plan and send it ahead with its rows; plans come in order of their steps.

        Args:
            plan: The plan.
            factor: Of all learning rates in its step.
            number: How often dense weights have moved, with its step.
        """
        if plan.aside:
            return
        packing = self._packing = self.packing_for(plan, self._packing)
        block = self._in.take(packing.sections)
        block.free.wait()
        self.pack_into(packing, plan, factor, number, block.arrays)
        self._coming.add(plan.step)
        self._to_read.put(Sent(plan, packing, block, Mark()))

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
        self, packing: Packing, plan: Plan, factor: float, number: int, arrays: dict[str, Array]
    ) -> None:
        """Write a plan into the arrays of a block, all but the rows that come."""
        packing.pack(plan, factor, arrays)
        if self._how is not None:
            self._how(factor, number, arrays["weights"])

    def arrive(self, plan: Plan) -> Sent:
        """The packed plan, on the device before anything that is computed from here on."""
        if plan.step not in self._coming:
            raise SlipstreamError(f"The rows of step {plan.step} were not prepared.")
        self.raise_what_failed()
        begun, ready = time.perf_counter(), not self._sent.empty()
        sent = self._sent.get()
        if not ready:
            self.clock.waits += 1
            self.clock.waited += time.perf_counter() - begun
        self.clock.seconds += time.perf_counter() - begun
        if isinstance(sent, BaseException):
            # Reading also ends because writing failed: that is what went wrong then.
            self._failure = self._failure or sent
            raise self._failure
        self._coming.discard(plan.step)
        sent.there.before_more_in(self.compute)
        return sent

    def arrived(self, sent: Sent) -> None:
        """Its block was read: it may be used again after what is computed up to here."""
        self._in.give_back(sent.block, self.compute.mark())

    def leave(self, plan: Plan, out: Sections, block: torch.Tensor) -> None:
        """Take what a step gives, rows that leave among it; they are written back meanwhile."""
        given = self._out.take(out)
        given.host.copy_(block, non_blocking=True)
        self._under_way += 1
        self._to_write.put((plan, given, self.compute.mark()))

    def done(self, *, wait: bool = False) -> list[Done]:
        """The steps whose results have come since the last time; `wait` has all of them come."""
        finished = []
        while self._failure is None and self._under_way and (wait or not self._done.empty()):
            made = self._done.get()
            self._under_way -= 1
            if isinstance(made, BaseException):
                self._failure = made
            else:
                finished.append(made)
        self.raise_what_failed()
        return finished

    def raise_what_failed(self) -> None:
        """Raise what a write-back failed with, for good: rows are lost, nothing must be saved."""
        if self._failure is not None:
            raise self._failure

    def settle(self) -> None:
        """Write every row on the device back, without sending it away; results have all come."""
        self.check_quiet()
        self.held.settle()

    def check_quiet(self) -> None:
        """Raise an error where results of steps are still to come."""
        self.raise_what_failed()
        if self._under_way:
            raise SlipstreamError("The results of all steps must have come before rows settle.")

    def landed(self, step: int) -> None:
        """What a step has changed is in the slow store."""
        with self._changed:
            self._landed = step
            self._changed.notify_all()

    def close(self) -> None:
        """Finish what is under way and end the threads."""
        self._stop()
        self._to_read.put(None)
        self._to_write.put(None)
        for thread in self._threads:
            thread.join()
        self._gathers.close()
        self.held.close()

    def _stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _read_all(self) -> None:
        while (coming := self._to_read.get()) is not None:
            try:
                self._sent.put(self._read(coming))
            except BaseException as error:
                self._sent.put(error)
                return

    def _read(self, sent: Sent) -> Sent:
        plan, block = sent.plan, sent.block
        with self._changed:
            self._changed.wait_for(lambda: self._landed >= plan.after or self._stopped)
            if self._stopped:
                raise SlipstreamError(f"The rows of step {plan.step} are not read any more.")
        for number, (slow, group) in enumerate(zip(self.held.slow, plan.groups, strict=True)):
            rows = tiers_of(group)[0].rows.numpy()
            self._gathers.gather(slow.records, rows, block.arrays[f"{number}.staged"])
        with self._inward.used():
            block.device.copy_(block.host, non_blocking=True)
        return sent._replace(there=self._inward.mark())

    def _write_all(self) -> None:
        while (given := self._to_write.get()) is not None:
            try:
                self._done.put(self._write(*given))
            except BaseException as error:
                self._failure = error
                self._stop()
                self._done.put(error)
                return

    def _write(self, plan: Plan, given: Block, there: Mark) -> Done:
        there.wait()
        arrays = given.arrays
        for number, group in enumerate(plan.groups):
            rows = tiers_of(group)[1].rows.numpy()
            self.held.write(number, rows, arrays[f"{number}.left"])
        self.held.note(plan)
        logits = torch.from_numpy(arrays["logits"].copy())
        moved = tuple(int(arrays[f"{n}.touched"][0]) for n in range(len(plan.groups)))
        made = Done(float(arrays["loss"][0]), logits, plan, moved)
        self._out.give_back(given, Mark())
        self.landed(plan.step)
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
