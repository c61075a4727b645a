"""Carries plans and rows to a device and rows back from it, beside the computation.

The thread that prepares plans packs them. One thread reads rows of the slow store and sends them
with their plans, and one writes rows back as they arrive. Rows for a plan are read only when the
write-backs that it names have finished. Plans go to the device in a stream of their own, between
blocks that nothing else uses, and so do the results of steps; only the computation touches the
slots.

A step of a GPU takes a fraction of a millisecond, and all Python threads together must do their
work for it in that time, since only one runs at once. So plans travel several at a time.
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
from slipstream.gpu.streams import Stream, StreamEvent
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

_NOTHING, _COLD, _ALL = range(3)  # which rows are the same on the host as on the device

WeightParameters = Callable[[float, int, Array], None]
"""Writes how dense weights are updated, with a factor of their learning rate in that step."""


class Carrier:
    """Moves plans and rows between the host and the slots of a device.

    `before_write` is called with the group and the rows before rows of the slow store change.
    `number` is float32, or float64 for checks: the type of labels, weights and dense values.
    `weights` is how many numbers describe the update of dense weights, and `how` writes them.
    `together` is the most plans of a bundle. `grows` is how many times as many rows as for the
    first plan may come for later ones.
    """

    def __init__(
        self,
        slow: Sequence[RowStore],
        arena: Arena,
        before_write: BeforeWrite,
        number: torch.dtype = torch.float32,
        weights: int = 0,
        how: WeightParameters | None = None,
        together: int = 1,
        grows: float = 1.0,
    ) -> None:
        self.together, self._grows = together, grows
        self._arena, self.contents = arena, SlotContents(slow, arena, before_write)
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

    def keep(self, resident: Sequence[RowSlots], step: int = 0) -> None:
        """Bring in the rows that are there before the first step; `step` steps are done."""
        self.landed(step)
        self._arena.number(resident)
        for number, moves in enumerate(resident):
            self.contents.keep(number, moves)

    def prepare(self, coming: Sequence[QueuedPlan]) -> None:
        """Pack coming plans and send them ahead with their rows, in the order of their steps."""
        for some in bundles(coming, self.together):
            self._send(some, runs([queued.plan for queued in some]))

    def _send(self, coming: Sequence[QueuedPlan], parts: list[PlanRun]) -> None:
        """Pack plans that travel together, and hand them to the thread that reads rows."""
        plans = [queued.plan for queued in coming]
        grows = self._grows if self._packing is None else 1.0
        packing = self._packing = self.packing_for(plans, parts, self._packing, grows)
        if self._in is None or self._in.sections is not packing.sections:
            self._in = self._ring(packing.sections, packing.of_inputs)
        bundle = PlanBundle(packing, self._in.take(len(coming)), plans, parts)
        packing.pack_steps(plans, [queued.factor for queued in coming], bundle.pages.stacked)
        for queued, weights in zip(coming, bundle.pages.stacked["weights"], strict=True):
            self._write_weights(queued, weights)
        words = bundle.pages.words
        for run in parts:
            for number, many in enumerate(run.many or ()):
                lookups, fills = run.bounds(many.lookups), run.bounds(many.fills)
                evicts = run.bounds(many.evicts)
                packing.pack_many(number, many, lookups, fills, evicts, words[run.pages])
            if run.many is None:
                packing.pack_rows(plans[run.page], bundle.pages.arrays[run.page])
        self._coming.update(plan.step for plan in plans)
        self._to_read.put(bundle)

    def _ring(self, sections: Sections, of_inputs: Sections = NOTHING) -> Ring:
        """Pages for all bundles in flight."""
        ring = Ring(sections, BUNDLES * self.together, self._arena.device, of_inputs)
        if self._stopped:  # `stop` ran before this ring existed
            ring.stop()
        return ring

    def packing_for(
        self, plans: Sequence[Plan], parts: Sequence[PlanRun], before: Packing | None = None,
        grows: float = 1.0,
    ) -> Packing:  # fmt: skip
        """The packing of plans that consist of these runs: the one before, if they fit."""
        plan, needed = plans[0], needs_of_all(plans, parts)
        for number in range(len(plan.groups)):
            # Rows that come also leave, if only at the end: new pages then would be too many.
            come, leave = f"{number}.fill", f"{number}.evict"
            needed[leave] = max(needed[leave], needed[come])
        offsets = any(plan.logit_offset is not None for plan in plans)
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
        self._write_weights(coming, arrays["weights"])

    def _write_weights(self, coming: QueuedPlan, weights: Array) -> None:
        """Write how dense weights are updated in the step of a plan."""
        if self._how is not None:
            self._how(coming.factor, coming.number, weights)

    def arrive(self, plan: Plan) -> PlanBundle:
        """The bundle that begins with a plan: it arrives before later work of the computation."""
        if plan.step not in self._coming:
            raise SlipstreamError(f"The rows of step {plan.step} were not prepared.")
        self.raise_failure()
        begun, ready = time.perf_counter(), not self._sent.empty()
        bundle = self._sent.get()
        if not ready:
            self.clock.waits += 1
            self.clock.waited += time.perf_counter() - begun
        self.clock.seconds += time.perf_counter() - begun
        if isinstance(bundle, BaseException):
            # If writing failed, reading ends too: then that is the first error.
            self._failure = self._failure or bundle
            raise self._failure
        assert bundle.plans[0] is plan, "plans are stepped through in the order they came in"
        self._coming.difference_update(done.step for done in bundle.plans)
        bundle.there.before_more_in(self.compute)
        return bundle

    def room_for_outcome(self, sections: Sections, count: int) -> Pages:
        """Pages for the results of so many steps."""
        if self._out is None or self._out.sections is not sections:
            self._out = self._ring(sections)
        try:
            return self._out.take(count)
        except SlipstreamError:
            self.raise_failure()
            raise

    def leave(self, bundle: PlanBundle, outcome: Pages) -> None:
        """All steps of a bundle are queued: copy their results to the host, then free its pages.

        Rows that leave are written back meanwhile.
        """
        there = self.compute.mark()
        bundle.pages.ring.give_back(bundle.pages, there)
        self._under_way += len(bundle.plans)
        self._settled = _NOTHING
        self._to_write.put(Outcome(outcome, bundle, there))

    def done(self, *, but: int | None = None) -> list[StepResult]:
        """Steps finished since the last call; `but` waits until at most so many are in flight."""
        finished: list[StepResult] = []
        while self._failure is None and self._under_way:
            if self._done.empty() and (but is None or self._under_way <= but):
                break
            results = self._done.get()
            if isinstance(results, BaseException):
                self._failure = results
            else:
                self._under_way -= len(results)
                finished += results
        self.raise_failure()
        return finished

    def raise_failure(self) -> None:
        """Raise the error of a write-back, each time: rows are lost, nothing must be saved."""
        if self._failure is not None:
            raise self._failure

    def flush(self, only: Sequence[Array] | None = None, *, resident: bool = True) -> None:
        """Write rows on the device back, without removing them; all results must have come.

        `only` are for each group the rows that must be written back; None are all. Without
        `resident`, rows that stay and that the device finds by their ids are left out.
        """
        self.check_quiet()
        wanted = _ALL if resident else _COLD
        if self._settled < wanted and only is not None:
            self.contents.flush_some(only, resident=resident)
        elif self._settled < wanted:
            self.contents.flush(resident=resident)
            self._settled = wanted

    def check_quiet(self) -> None:
        """Raise an error where results of steps are still to come."""
        self.raise_failure()
        if self._under_way:
            raise SlipstreamError(
                "The results of all steps must have come before rows are flushed."
            )

    def landed(self, step: int) -> None:
        """Note that the changes of a step are in the slow store."""
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
        self.contents.close()
        # A plan without a step may still be on its way, into memory that is freed now.
        self._inward.mark().wait()

    def stop(self) -> None:
        """Take no more plans and read no more rows; threads that wait for them continue."""
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
            for number, slow in enumerate(self.contents.slow):
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
        """Wait until the changes of a step are in the slow store."""
        with self._changed:
            self._changed.wait_for(lambda: self._landed >= step or self._stopped)
            if self._stopped:
                first = bundle.plans[0].step
                raise SlipstreamError(f"The rows of step {first} are not read any more.")

    def _write_all(self) -> None:
        while (outcome := self._to_write.get()) is not None:
            try:
                self._done.put(self._write(outcome))
            except BaseException as error:
                self._failure = error
                self.stop()
                self._done.put(error)
                return

    def _write(self, outcome: Outcome) -> list[StepResult]:
        outcome.there.before_more_in(self._outward)
        with self._outward.used():
            outcome.pages.host.copy_(outcome.pages.device, non_blocking=True)
        self._outward.mark().wait()
        plans = outcome.bundle.plans
        for run in outcome.bundle.runs:
            if run.many is not None:
                self.contents.write_run(run, outcome.pages)
                continue
            plan, arrays = plans[run.page], outcome.pages.arrays[run.page]
            for number, group in enumerate(plan.groups):
                self.contents.write(number, tiers_of(group)[1].rows, arrays[f"{number}.left"])
        self.landed(plans[-1].step)  # first, since rows of coming plans wait for it
        for run in outcome.bundle.runs:
            self.contents.note(run, plans[run.page])
        stacked = outcome.pages.stacked
        losses = stacked["loss"][:, 0].tolist()
        logits = torch.from_numpy(stacked["logits"].copy()).unbind()
        counts = (stacked[f"{number}.touched"][:, 0] for number in range(len(self.contents.slow)))
        moved = zip(*(rows.tolist() for rows in counts), strict=True)
        results = []
        for loss, of_batch, plan, of_groups in zip(losses, logits, plans, moved, strict=True):
            pairs = zip(plan.groups, of_groups, strict=True)
            needs = sum(count for group, count in pairs if group.cold is not None)
            results.append(StepResult(loss, of_batch, plan, needs))
        outcome.pages.ring.give_back(outcome.pages, StreamEvent())
        return results


def outcome_sections(packing: Packing, arena: Arena) -> Sections:
    """The results of a step: its loss, the logits of its inputs, and the rows that leave."""
    sections = {
        "loss": Section(packing.number, (1,)),
        "logits": Section(packing.number, (packing.inputs,)),
    }
    for number, shape in enumerate(arena.shapes):
        sections[f"{number}.touched"] = Section(torch.int32, (1,))
        left = (packing.room[f"{number}.evict"], shape.words)
        sections[f"{number}.left"] = Section(torch.int32, left)
    return Sections(sections)
