"""Carries plans and rows to a device and rows back from it, beside the computation.

Who prepares plans packs them. One thread reads rows of the slow store and sends them with their
plans, and one writes rows back as they come. Rows for a plan are read only when the write-backs
that it names have landed. Plans go to the device in a stream of their own, between blocks that
nothing else uses, and so does what steps give; only the computation touches the slots.

A step of a GPU takes a fraction of a millisecond, and what all threads of Python do for it must fit
into that, one after the other. So plans travel several at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue

import torch

from slipstream.arrays import Array
from slipstream.errors import SlipstreamError
from slipstream.gpu.step.arena import Arena
from slipstream.gpu.streams import Event, Stream
from slipstream.gpu.transfer.bundle import (
    BUNDLES,
    Outcome,
    PlanBundle,
    PlanRun,
    QueuedPlan,
    bundles,
    needs_of_all,
    runs,
)
from slipstream.gpu.transfer.gather import Pool
from slipstream.gpu.transfer.group_packing import tiers_of
from slipstream.gpu.transfer.packing import Packing, room_for
from slipstream.gpu.transfer.ring import NOTHING, Pages, Ring
from slipstream.gpu.transfer.sections import Section, Sections
from slipstream.gpu.transfer.slot_contents import SlotContents
from slipstream.pipeline.engine import StepResult
from slipstream.tables.mover import BeforeWrite, Clock
from slipstream.tables.plan import Plan, RowSlots
from slipstream.tables.store import RowStore

_NOTHING, _THAT_COME, _ALL = range(3)  # which rows are on the host as they are on the device

SayHow = Callable[[float, int, Array], None]
"""Writes down how dense weights move, with a factor of their learning rate in that step."""


class Carrier:
    """Moves plans and rows between the host and the slots of a device.

    Args:
        slow: Every row, group by group, on the host.
        arena: The slots.
        before_write: Told the group and the rows before rows of the slow store are changed.
        number: float32, or float64 for checks: of labels, weights and dense values.
        weights: How many numbers say how dense weights move.
        how: Writes them.
        together: The most plans that travel together.
        grows: How many times as many rows as for the first plan may come for later ones.
    """

    def __init__(
        self,
        slow: Sequence[RowStore],
        arena: Arena,
        before_write: BeforeWrite,
        number: torch.dtype = torch.float32,
        weights: int = 0,
        how: SayHow | None = None,
        together: int = 1,
        grows: float = 1.0,
    ) -> None:
        self.together, self._grows = together, grows
        self._arena, self.held = arena, SlotContents(slow, arena, before_write)
        self._number, self._weights, self._how = number, weights, how
        self.compute, self._inward = Stream(arena.device, current=True), Stream(arena.device)
        self._outward = Stream(arena.device)
        self._in: Ring | None = None
        self._out: Ring | None = None
        self._packing: Packing | None = None
        self._coming: set[int] = set()
        self._to_read: SimpleQueue[PlanBundle | None] = SimpleQueue()
        self._sent: SimpleQueue[PlanBundle | BaseException] = SimpleQueue()
        self._to_write: SimpleQueue[Outcome | None] = SimpleQueue()
        self._done: SimpleQueue[list[StepResult] | BaseException] = SimpleQueue()
        self._under_way = 0
        self._settled = _NOTHING
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

    def keep(self, kept: Sequence[RowSlots], step: int = 0) -> None:
        """Bring in the rows that are there before the first step; `step` steps are done."""
        self.landed(step)
        self._arena.number(kept)
        for number, moves in enumerate(kept):
            self.held.keep(number, moves)

    def prepare(self, coming: Sequence[QueuedPlan]) -> None:
        """Pack coming plans and send them ahead with their rows, in the order of their steps."""
        for some in bundles(coming, self.together):
            found = runs([one.plan for one in some])
            self._send(some, found)

    def _send(self, coming: Sequence[QueuedPlan], found: list[PlanRun]) -> None:
        """Pack plans that travel together; a thread goes on with them."""
        plans = [one.plan for one in coming]
        grows = self._grows if self._packing is None else 1.0
        packing = self._packing = self.packing_for(plans, found, self._packing, grows)
        if self._in is None or self._in.sections is not packing.sections:
            self._in = self._ring(packing.sections, packing.of_inputs)
        bundle = PlanBundle(packing, self._in.take(len(coming)), plans, found)
        packing.pack_steps(plans, [one.factor for one in coming], bundle.pages.stacked)
        for one, weights in zip(coming, bundle.pages.stacked["weights"], strict=True):
            self._say_how(one, weights)
        words = bundle.pages.words
        for run in found:
            for number, many in enumerate(run.many or ()):
                packing.pack_many(
                    number,
                    many,
                    run.bounds(many.lookups),
                    run.bounds(many.fills),
                    run.bounds(many.evicts),
                    words[run.pages],
                )
            if run.many is None:
                packing.pack_rows(plans[run.page], bundle.pages.arrays[run.page])
        self._coming.update(one.plan.step for one in coming)
        self._to_read.put(bundle)

    def _ring(self, sections: Sections, of_inputs: Sections = NOTHING) -> Ring:
        """Pages for all strides that are under way."""
        ring = Ring(sections, BUNDLES * self.together, self._arena.device, of_inputs)
        if self._stopped:  # whoever was told to stop knows nothing of this one
            ring.stop()
        return ring

    def packing_for(
        self,
        plans: Sequence[Plan],
        found: Sequence[PlanRun],
        before: Packing | None = None,
        grows: float = 1.0,
    ) -> Packing:
        """How to pack plans, of which these were made together: as before, if they fit."""
        plan, needed = plans[0], needs_of_all(plans, found)
        for number in range(len(plan.groups)):
            # What comes leaves, if not now then at the end: pages made anew would be too many.
            come, leave = f"{number}.fill", f"{number}.evict"
            needed[leave] = max(needed[leave], needed[come])
        offsets = any(one.logit_offset is not None for one in plans)
        if before is not None and before.fits(needed) and (before.offsets or not offsets):
            return before
        return Packing(
            self._arena.layout,
            plan.capacity,
            plan.dense.shape[1],
            room_for(needed, None if before is None else before.room, grows=grows),
            self._number,
            self._weights,
            0 if plan.ids is None else plan.ids.shape[1],
            offsets or (before is not None and before.offsets),
        )

    def pack_into(self, packing: Packing, coming: QueuedPlan, arrays: dict[str, Array]) -> None:
        """Write a plan into the arrays of a block, all but the rows that come."""
        packing.pack(coming.plan, coming.factor, arrays)
        self._say_how(coming, arrays["weights"])

    def _say_how(self, coming: QueuedPlan, weights: Array) -> None:
        """Write how dense weights move in the step of a plan."""
        if self._how is not None:
            self._how(coming.factor, coming.number, weights)

    def arrive(self, plan: Plan) -> PlanBundle:
        """What travelled together from a plan on: there before what is computed from here on."""
        if plan.step not in self._coming:
            raise SlipstreamError(f"The rows of step {plan.step} were not prepared.")
        self.raise_what_failed()
        begun, ready = time.perf_counter(), not self._sent.empty()
        bundle = self._sent.get()
        if not ready:
            self.clock.waits += 1
            self.clock.waited += time.perf_counter() - begun
        self.clock.seconds += time.perf_counter() - begun
        if isinstance(bundle, BaseException):
            # Reading also ends because writing failed: that is what went wrong then.
            self._failure = self._failure or bundle
            raise self._failure
        assert bundle.plans[0] is plan, "plans are stepped through in the order they came in"
        self._coming.difference_update(one.step for one in bundle.plans)
        bundle.there.before_more_in(self.compute)
        return bundle

    def room_for_outcome(self, sections: Sections, count: int) -> Pages:
        """Pages for what so many steps will give."""
        if self._out is None or self._out.sections is not sections:
            self._out = self._ring(sections)
        try:
            return self._out.take(count)
        except SlipstreamError:
            self.raise_what_failed()
            raise

    def leave(self, bundle: PlanBundle, outcome: Pages) -> None:
        """All steps of a stride were asked for: what they give is taken, its pages are free then.

        Rows that leave are written back meanwhile.
        """
        there = self.compute.mark()
        bundle.pages.ring.give_back(bundle.pages, there)
        self._under_way += len(bundle.plans)
        self._settled = _NOTHING
        self._to_write.put(Outcome(outcome, bundle, there))

    def done(self, *, but: int | None = None) -> list[StepResult]:
        """The steps whose results have come since the last time.

        Args:
            but: Wait until those of so many steps at most are still to come; None never waits.
        """
        finished: list[StepResult] = []
        while self._failure is None and self._under_way:
            if self._done.empty() and (but is None or self._under_way <= but):
                break
            made = self._done.get()
            if isinstance(made, BaseException):
                self._failure = made
            else:
                self._under_way -= len(made)
                finished += made
        self.raise_what_failed()
        return finished

    def raise_what_failed(self) -> None:
        """Raise what a write-back failed with, for good: rows are lost, nothing must be saved."""
        if self._failure is not None:
            raise self._failure

    def flush(self, only: Sequence[Array] | None = None, *, kept: bool = True) -> None:
        """Write rows on the device back, without sending them away; results have all come.

        Args:
            only: For each group the rows that must be written back; None are all.
            kept: Whether also those that stay and that the device finds by their ids.
        """
        self.check_quiet()
        wanted = _ALL if kept else _THAT_COME
        if self._settled < wanted and only is not None:
            self.held.settle_some(only, kept=kept)
        elif self._settled < wanted:
            self.held.flush(kept=kept)
            self._settled = wanted

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
        self.stop()
        self._to_read.put(None)
        self._to_write.put(None)
        for thread in self._threads:
            thread.join()
        self._gathers.close()
        self.held.close()
        # A plan that nobody steps through may still be on its way, into memory that is given back.
        self._inward.mark().wait()

    def stop(self) -> None:
        """Take no more plans and read no more rows: whoever waits for that is told."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for ring in (self._in, self._out):
            if ring is not None:
                ring.stop()

    def _read_all(self) -> None:
        while (coming := self._to_read.get()) is not None:
            try:
                self._sent.put(self._read(coming))
            except BaseException as error:
                self._sent.put(error)
                return

    def _read(self, bundle: PlanBundle) -> PlanBundle:
        with self._inward.used():
            bundle.send_inputs()
        for run in bundle.runs:
            self._wait_for(run.after, bundle)
            for number, slow in enumerate(self.held.slow):
                if run.many is not None:
                    bounds, words = run.bounds(run.many[number].fills), bundle.pages.words
                    offset = bundle.packing.sections.starts[f"{number}.staged"] // 4
                    rows = run.many[number].fill_rows
                    self._gathers.gather_pages(slow.records, rows, bounds, words[run.pages], offset)
                    continue
                rows = tiers_of(bundle.plans[run.page].groups[number])[0].rows
                staged = bundle.pages.arrays[run.page][f"{number}.staged"]
                self._gathers.gather(slow.records, rows, staged)
        with self._inward.used():
            bundle.pages.device.copy_(bundle.pages.host, non_blocking=True)
        bundle.there = self._inward.mark()
        return bundle

    def _wait_for(self, step: int, bundle: PlanBundle) -> None:
        """Wait until what a step has changed is in the slow store."""
        with self._changed:
            self._changed.wait_for(lambda: self._landed >= step or self._stopped)
            if self._stopped:
                first = bundle.plans[0].step
                raise SlipstreamError(f"The rows of step {first} are not read any more.")

    def _write_all(self) -> None:
        while (given := self._to_write.get()) is not None:
            try:
                self._done.put(self._write(given))
            except BaseException as error:
                self._failure = error
                self.stop()
                self._done.put(error)
                return

    def _write(self, given: Outcome) -> list[StepResult]:
        given.there.before_more_in(self._outward)
        with self._outward.used():
            given.pages.host.copy_(given.pages.device, non_blocking=True)
        self._outward.mark().wait()
        plans = given.bundle.plans
        for run in given.bundle.runs:
            if run.many is not None:
                self.held.write_run(run, given.pages)
                continue
            plan, arrays = plans[run.page], given.pages.arrays[run.page]
            for number, group in enumerate(plan.groups):
                self.held.write(number, tiers_of(group)[1].rows, arrays[f"{number}.left"])
        self.landed(plans[-1].step)  # first of all: rows of coming plans wait for it
        for run in given.bundle.runs:
            self.held.note(run, plans[run.page])
        said = given.pages.stacked
        losses = said["loss"][:, 0].tolist()
        logits = torch.from_numpy(said["logits"].copy()).unbind()
        counts = (said[f"{number}.touched"][:, 0] for number in range(len(self.held.slow)))
        moved = zip(*(one.tolist() for one in counts), strict=True)
        made = []
        for loss, of_batch, plan, of_groups in zip(losses, logits, plans, moved, strict=True):
            pairs = zip(plan.groups, of_groups, strict=True)
            needs = sum(count for group, count in pairs if group.cold is not None)
            made.append(StepResult(loss, of_batch, plan, needs))
        given.pages.ring.give_back(given.pages, Event())
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
