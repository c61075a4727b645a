"""The step on a device: all of it is one recording, replayed for every batch.

A step reads its plan from one block and writes its results to another, both always the same. The
first steps run directly, which compiles their kernels; then one is recorded. Recorded or not, it is
the same work in the same order, and so are the bits. Batches in several parts have a recording for
each choice of frames that is frequent enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain

import torch
from torch import Tensor

from slipstream.config import Config
from slipstream.data.batch import Batch
from slipstream.gpu.kernels.loss import loss_and_grad
from slipstream.gpu.planning.plan_ahead import RECORDED, colder, together
from slipstream.gpu.step.arena import Arena, Packed
from slipstream.gpu.step.flat_optimizer import PARAMETERS, FlatOptimizer
from slipstream.gpu.step.frames import Frame, Frames, frames
from slipstream.gpu.step.oversized_batch import by_itself
from slipstream.gpu.step.scoring import Scoring
from slipstream.gpu.step.step_buffers import PageCursor, StepBuffers
from slipstream.gpu.streams import Stream
from slipstream.gpu.supported import check_supported
from slipstream.gpu.transfer.bundle import PlanBundle, QueuedPlan, runs
from slipstream.gpu.transfer.carrier import Carrier
from slipstream.gpu.transfer.ring import Pages
from slipstream.models import Model
from slipstream.pipeline.dense import DensePart
from slipstream.pipeline.engine import Engine, Loss, Scored, StepResult, weighted_loss
from slipstream.pipeline.place.tier import TierSize
from slipstream.tables.plan import Plan, Planner
from slipstream.tables.spec import Embedded
from slipstream.tables.tables import Embeddings

_BEFORE_RECORDING = 3


class GraphEngine(Engine):
    """Embedding tables with their fast tier on a device, and a dense part there.

    `parts` is the number of parts of a batch; any loss but ours is for batches in one part.
    `record` is whether to record steps where that is possible, and `on_message` is called with a
    sentence for the user.
    """

    returns_results_first = False

    def __init__(
        self,
        tables: Embeddings,
        dense: DensePart,
        arena: Arena,
        carrier: Carrier,
        *,
        parts: int = 1,
        record: bool = True,
        on_message: Callable[[str], None] = lambda _: None,
        loss: Loss = weighted_loss,
    ) -> None:
        super().__init__(tables, dense)
        assert parts == 1 or loss is weighted_loss, "only our loss can be computed in parts"
        self._loss = loss
        self._arena, self._carrier, self._parts = arena, carrier, parts
        self._on_message = on_message
        self._record = record and arena.device.type == "cuda"
        self._side, self._recorder = Stream(arena.device), Stream.for_recording(arena.device)
        self._cursor: PageCursor | None = None
        self._recordings: dict[tuple[Frames, int], torch.cuda.CUDAGraph] = {}
        self._pool: tuple[int, int] | None = None
        self._scoring: dict[int, Scoring] = {}
        self._warm: Counter[Frames] = Counter()
        self._trained: int | None = None
        self._numbers: dict[int, int] = {}

    def prepare(self, plan: Plan, factor: float = 1.0) -> None:
        """Send a coming plan ahead, with `factor` of all learning rates."""
        self.prepare_all([(plan, factor)])

    def prepare_all(self, plans: Sequence[tuple[Plan, float]]) -> None:
        """Send coming plans ahead together, each with its factor of all learning rates."""
        for plan, factor in plans:
            if plan.oversized_batch:
                self._factors[plan.step] = factor
        self._carrier.prepare([QueuedPlan(plan, by, self._number(plan)) for plan, by in plans])

    def stop_preparing(self) -> None:
        """Prepare no more plans; a thread that waits to do so continues."""
        self._carrier.stop()

    def _number(self, plan: Plan) -> int:
        """How often dense weights will have moved after a plan: one without inputs moves none."""
        if self._trained is None:
            self._trained = self._flat.step_number
        self._trained += plan.n_valid > 0
        self._numbers[plan.step] = self._trained
        return self._trained

    def step(self, plan: Plan) -> Iterator[StepResult]:
        """Make the step of a prepared plan, and return results of steps that have finished."""
        yield from self.step_all([plan])

    def step_all(self, plans: Sequence[Plan]) -> Iterator[StepResult]:
        """Make the steps of plans prepared together, and return results of finished steps."""
        done = 0
        while done < len(plans):
            if plans[done].oversized_batch:
                yield from self._oversized_batch(plans[done])
                done += 1
                continue
            bundle = self._carrier.arrive(plans[done])
            outcome, cursor = self._begin(bundle)
            self._run(cursor, [frames(plan) for plan in bundle.plans])
            self._flat.step_number = [self._numbers.pop(plan.step) for plan in bundle.plans][-1]
            self._carrier.leave(bundle, outcome)
            done += len(bundle.plans)
        yield from _with_examples(self._carrier.done())

    def skip_step(self, plan: Plan) -> None:
        """Move the rows of a plan without inputs; nothing is trained."""
        bundle = self._carrier.arrive(plan)
        assert bundle.plans == [plan], "a plan without inputs travels alone"
        outcome, cursor = self._begin(bundle)
        del self._numbers[plan.step]
        cursor.read()
        self._arena.arrive(cursor.buffers.plan)
        self._arena.count(cursor.buffers.plan, cursor.buffers.results)
        self._arena.leave(cursor.buffers.plan, cursor.buffers.results)
        cursor.write()
        self._carrier.leave(bundle, outcome)

    def scores(
        self, batches: Iterable[Batch], planner: Planner, *, few: bool = False
    ) -> Generator[Scored, None, None]:
        """Each batch with its logits, in order: rows that stay are on the device already."""
        if not self._arena.numbered:
            yield from super().scores(batches, planner)
            return
        coming = iter(batches)
        first = next(coming, None)
        if first is None:
            return
        size = first.capacity
        if size not in self._scoring:
            self._scoring[size] = Scoring(self._arena, self.tables.stores, size)
        only = None
        if few:
            all_batches = [first, *coming]
            coming, only = iter(all_batches[1:]), self._scoring[size].rows_of(all_batches)
        self._carrier.flush(only, resident=False)
        work = (partial(self.dense.logits, train=False), self._recorded)
        scoring = self._scoring[size].scores(chain([first], coming), *work)
        with closing(scoring) as scores:
            for batch, logits in scores:
                yield batch, self.score(batch, planner) if logits is None else logits

    def _recorded(self, work: Callable[[], Tensor]) -> tuple[torch.cuda.CUDAGraph, Tensor] | None:
        """Some work as a recording, and its result; None where it cannot be recorded."""
        if not self._record:
            return None
        # No step runs meanwhile: so this recording can use the pool of theirs, too.
        pool = self._pool if self._recordings else torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        try:
            with self._recorder.recording(graph, pool):
                return graph, work()
        except Exception as error:
            torch.cuda.synchronize(self._arena.device)
            self._on_message(f"Scoring is not recorded, which makes it slower: {error}")
            return None

    def _oversized_batch(self, plan: Plan) -> Iterator[StepResult]:
        """A step whose rows do not fit the fast tier: they are on the device for it alone."""
        yield from self.remaining_results()
        self._carrier.check_quiet()
        contents = self._carrier.contents
        contents.lend(plan)
        rows, alone = by_itself(plan)
        arena = Arena(self._arena.layout, [len(own) for own in rows], self._arena.device)
        contents.copy_in(rows, arena)
        buffers = StepBuffers(self._carrier.packing_for([alone], runs([alone])), arena)
        host = torch.zeros(buffers.packing.bytes, dtype=torch.uint8)
        arrays = buffers.packing.arrays(host.numpy())
        factor, number = self._factors.pop(plan.step), self._numbers.pop(plan.step)
        self._carrier.pack_into(buffers.packing, QueuedPlan(alone, factor, number), arrays)
        buffers.block.copy_(host)
        self._work(arena, buffers, frames(alone))
        self._flat.step_number = number
        contents.copy_out(rows, arena)
        contents.take_back(plan)
        self._carrier.landed(plan.step)
        yield StepResult(float(buffers.results["loss"]), buffers.results["logits"].cpu(), plan)

    def _begin(self, bundle: PlanBundle) -> tuple[Pages, PageCursor]:
        """Pages for the results of the steps of a bundle, and the cursor, ready for them."""
        cursor, steps = self._cursor, len(bundle.plans)
        if cursor is None or bundle.pages.ring is not cursor.plans:
            if self._arena.device.type == "cuda":
                torch.cuda.synchronize(self._arena.device)
            buffers = StepBuffers(bundle.packing, self._arena)
            outcome = self._carrier.room_for_outcome(buffers.of_results, steps)
            cursor = self._cursor = PageCursor(buffers, bundle.pages.ring, outcome.ring)
            self._forget_recordings()
            self._warm.clear()
        else:
            outcome = self._carrier.room_for_outcome(cursor.buffers.of_results, steps)
        cursor.begin(bundle.pages.first, outcome.first, steps)
        return outcome, cursor

    def remaining_results(self, outstanding: int = 0) -> Iterator[StepResult]:
        """Wait for all but so many of the last steps, and return their results."""
        yield from _with_examples(self._carrier.done(but=outstanding))

    @property
    def _flat(self) -> FlatOptimizer:
        optimizer = self.dense.flat
        assert isinstance(optimizer, FlatOptimizer), "a recorded step moves weights in one row"
        return optimizer

    def _run(self, cursor: PageCursor, steps: Sequence[Frames]) -> None:
        """Steps in these frames: several as one recording, and what is left one by one."""
        # Batches in several parts have other frames each time.
        many = 1 if self._parts > 1 else min(self._carrier.together, RECORDED)
        done = 0
        while len(steps) - done >= many > 1 and self._replayed(cursor, steps[done], many):
            done += many
        for used in steps[done:]:
            if not self._replayed(cursor, used, 1):
                self._turn_over(cursor, used)
            self._warm[used] += 1

    def _replayed(self, cursor: PageCursor, used: Frames, steps: int) -> bool:
        """Replay so many steps in these frames, if they are recorded or can be."""
        recording = self._recording_of(cursor, used, steps) if self._can_record(used) else None
        if recording is not None:
            recording.replay()
        return recording is not None

    def _can_record(self, used: Frames) -> bool:
        """Whether a step in these frames can be recorded: its kernels are compiled."""
        return self._record and self._warm[used] >= _BEFORE_RECORDING

    def _recording_of(
        self, cursor: PageCursor, used: Frames, steps: int
    ) -> torch.cuda.CUDAGraph | None:
        if (used, steps) not in self._recordings:
            self._try_to_record(cursor, used, steps)
        return self._recordings.get((used, steps))

    def _try_to_record(self, cursor: PageCursor, used: Frames, steps: int) -> None:
        # All recordings share it: nothing in it outlives a step.
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        try:
            with self._recorder.recording(graph, self._pool):
                for _ in range(steps):
                    self._turn_over(cursor, used)
        except Exception as error:
            self._record = False
            self._forget_recordings()
            torch.cuda.synchronize(self._arena.device)
            self.dense.model.zero_grad()  # recorded gradients have no values
            self._on_message(f"Steps are not recorded, which makes them slower: {error}")
            return
        self._recordings[used, steps] = graph

    def _forget_recordings(self) -> None:
        """Drop all recordings and their pool, which PyTorch does not use again."""
        self._recordings.clear()
        self._scoring.clear()
        self._pool = None

    def _turn_over(self, cursor: PageCursor, used: Frames) -> None:
        """One step, from the page of its plan to the page of its results."""
        cursor.read()
        self._work(self._arena, cursor.buffers, used)
        cursor.write()

    def _work(self, arena: Arena, buffers: StepBuffers, used: Frames) -> None:
        """One step, from the block of its plan to the block of its results."""
        plan, results = buffers.plan, buffers.results
        model, embedded = self.dense.model, []
        # For an arena of another size, a compiled model would be compiled again.
        in_slots = isinstance(model, Model) and model.reads_slots and arena is self._arena
        self._side.after(self._carrier.compute)
        try:
            with self._side.used():  # the lookup is the first to need them
                arena.arrive(plan)
            arena.find(plan)
            self._carrier.compute.after(self._side)
            self._side.after(self._carrier.compute)
            with self._side.used():  # the update is the first to need it
                arena.touch(plan)
                arena.count(plan, results)
            for frame in used:
                embedded.append(arena.lookup(plan, frame, in_slots=in_slots))
                self._backward(plan, results, frame, embedded[-1])
            self._side.after(self._carrier.compute)
            with self._side.used():  # dense weights move meanwhile
                arena.update_rows(plan, embedded, used)
            self._flat.update(plan["weights"])
        finally:  # a recording that fails reports why only if its streams are joined
            self._carrier.compute.after(self._side)
        arena.leave(plan, results)

    def _backward(self, plan: Packed, results: Packed, frame: Frame, embedded: Embedded) -> None:
        """The gradients of a part of a batch; writes its loss and its logits."""
        own_loss, inputs = self._loss is weighted_loss, frame.inputs
        logits = self.dense.logits(plan["dense"][inputs], embedded, widen=not own_loss)
        names = ("labels", "weight", "logit_offset")
        labels, weight, offset = (plan[name][inputs] for name in names)
        if own_loss:
            part = (plan["spans"][frame.span], len(plan["labels"]), frame.number > 0)
            out = (results["logits"][inputs], results["loss"])
            logits.backward(loss_and_grad(logits.detach(), labels, weight, offset, *part, *out))
            return
        loss = self._loss(logits, labels, weight, offset)
        loss.backward()
        results["logits"].copy_(logits.detach())
        results["loss"].copy_(loss.detach().reshape(1))


def _with_examples(results: Iterable[StepResult]) -> Iterator[StepResult]:
    """The results of the steps whose batches had examples."""
    return (result for result in results if result.plan.n_valid)


def build_graph_engine(
    config: Config,
    model: Model,
    tier_sizes: Sequence[TierSize],
    *,
    seed: int | None,
    parts: int = 1,
    one_by_one: bool = False,
    on_message: Callable[[str], None] = lambda _: None,
    tables: Embeddings | None = None,
    dense: DensePart | None = None,
    loss: Loss = weighted_loss,
) -> GraphEngine:
    """An engine whose step is one CUDA graph, replayed for every batch.

    Args:
        config: Device, precision and optimizers.
        model: The dense part.
        tier_sizes: The fast tier of each group.
        seed: For the first values of rows; None leaves zeros.
        parts: Parts of a batch.
        one_by_one: Whether plans are sent to the device one by one, and not several together.
        on_message: Called with a sentence for the user.
        tables: The rows on the host, if they exist already.
        dense: The dense part, if it exists already.
        loss: The loss of a batch.
    """
    check_supported(model.layout)
    device = torch.device(config.device)
    if tables is None:
        tables = Embeddings(model.layout, seed=seed, device=device)
    rows = tables  # not None in the lambda below
    dense = dense or DensePart(
        model,
        config.dense,
        config.precision,
        config.compile == "on",
        device=device,
        optimizer=FlatOptimizer,
    )
    assert isinstance(dense.flat, FlatOptimizer), "a recorded step moves weights in one row"
    arena = Arena(model.layout, [tier.slots for tier in tier_sizes], device)
    exact = any(table.storage == "fp64" for table in model.layout.tables)
    carrier = tables.mover = Carrier(
        tables.stores,
        arena,
        lambda group, changed: rows.before_write(group, changed),
        torch.float64 if exact else torch.float32,
        PARAMETERS,
        dense.flat.set_parameters,
        1 if one_by_one else together(config, tier_sizes),
        colder(config),
    )
    return GraphEngine(tables, dense, arena, carrier, parts=parts, on_message=on_message, loss=loss)
