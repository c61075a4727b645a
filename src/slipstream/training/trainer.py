"""The training loop: the path of one batch, from the order of inputs to a checkpoint."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from slipstream import gpu
from slipstream.config import Config
from slipstream.data.batch import Batch
from slipstream.data.dataset import Dataset, Part
from slipstream.data.loader import Loader
from slipstream.errors import SlipstreamError
from slipstream.models import Model
from slipstream.pipeline.engine import StepResult
from slipstream.pipeline.place.counting import add_unplanned_lookups
from slipstream.pipeline.schedule import crossed
from slipstream.skip.steps import FinishedStep
from slipstream.tables.mover import Clock
from slipstream.tables.plan import Plan, Planner
from slipstream.tables.sizes import row_bytes
from slipstream.training import build
from slipstream.training.checkpoint import Checkpoints, WholeCheckpoint, load
from slipstream.training.dataset_compatibility import dataset_description
from slipstream.training.diverged import diverged_after, diverged_in
from slipstream.training.evaluation import RATE_INPUTS, auc_mode, evaluate, first_inputs
from slipstream.training.init_from import WarmStart
from slipstream.training.metrics import Scores
from slipstream.training.process_memory import MemoryPeak
from slipstream.training.progress import Report
from slipstream.training.reading import loader_of
from slipstream.training.reports import Reports
from slipstream.training.resume import plans_from, take_up_order
from slipstream.training.run import Run
from slipstream.training.skip import Skipping
from slipstream.training.state import DOES_NOT_FIT, Hooks, State, StoppedError, no_better
from slipstream.training.summary import summary_of

CHECKPOINTS = 2  # that stay: the newest, and one to go back to should it be damaged
_REPORTS = 100  # lines of metrics.jsonl about training; more would not show more in a plot


def report_every(batch_size: int, total: int) -> int:
    """Inputs from one line about training to the next, in a run of so many in total."""
    return max(batch_size, total // _REPORTS)


class Trainer:
    """One run. Its methods, read in order, are the path of a batch."""

    def __init__(
        self,
        dataset: Dataset,
        config: Config,
        run: Run,
        hooks: Hooks,
        stack: ExitStack,
        model: Model,
    ) -> None:
        self.dataset, self.config, self.run, self.hooks = dataset, config, run, hooks
        self.total = len(build.order_of(config, dataset))
        self.saver = Checkpoints(run.checkpoints, CHECKPOINTS)
        stack.enter_context(self.saver)
        self.model = model
        self.placement = build.placement_of(model.layout, dataset)
        self.described = dataset_description(dataset)
        self.row_bytes = row_bytes(model.layout)
        self.state = State(self.total)
        self.peak = MemoryPeak()
        stack.callback(self.peak.close)
        self._stack = stack
        self._saved, self._saved_at = self.state.apart_from_time(), time.monotonic()
        self._scores: tuple[int, str, Scores] | None = None
        self._finished: list[FinishedStep] = []  # steps that skipping is to learn from
        self._began: dict[int, int] = {}  # where the batches began of which nothing was said yet
        self.log_every = report_every(config.batch_size, self.total)

    def start(self, found: WholeCheckpoint | None, warm: WarmStart | None) -> None:
        """Begin at the beginning, with another run's weights, or where a checkpoint stands."""
        gpu.reset_peak_memory(self.config.device)
        # Rows that a checkpoint brings need no first values.
        self.tier_sizes = build.tier_sizes_of(self.config, self.model.layout, self.dataset)
        self.engine = build.engine_of(
            self.config,
            self.model,
            steps=0,
            fresh=found is None,
            tier_sizes=self.tier_sizes,
            say=self.hooks.say,
        )
        self._stack.callback(self.engine.tables.close)
        self.engine.tables.before_write = self.saver.before_update
        self.reports = Reports(
            self.run, self.hooks, beside=not self.engine.returns_results_first, stack=self._stack
        )
        length, tensors = 0, None
        if found is not None:
            tensors, saved = load(found, self.engine.tables.stores)
            self.engine.dense.load_state_dict(tensors)
            self.reports.load_state_dict(tensors)
            self.state = State(**saved["training"])
            self._saved = self.state.apart_from_time()
            length = saved["lines"]
            self.hooks.say(f"Going on from input {self.state.position:,} of {self.total:,}.")
        elif warm is not None:
            self.state.init_from = warm.fill(self.engine)
        self.skipping = Skipping.of(
            self.config, self.model.layout, self.dataset, self.tier_sizes, self.engine
        )
        self.order = self.skipping.order
        self.skipping.restore(self.state, tensors, self.hooks)
        take_up_order(self.state, build.order_of(self.config, self.dataset), self.order)
        self.reports.open(length, self.config, self.state.position)
        if self.state.total != self.total:
            self._with_another_end()

    def _with_another_end(self) -> None:
        """Go on with more or fewer epochs: what follows, follows the new number of inputs."""
        was = self.state.total
        self.hooks.say(
            f"The run now ends at input {self.total:,} instead of {was:,}. Decay of learning rates "
            "and points of evaluation follow that from here on."
        )
        if self.state.position == was and self.total > was:
            self._score(was / self.total)  # the old end is a point of the curve
            self.state.ended = self.state.ended_early
        self.state.total = self.total
        if self.state.ended_early:
            self.hooks.say("Validation had stopped getting better before: training has ended.")

    def run_through(self) -> None:
        """Train until the inputs are used up, or until validation gets no better."""
        tiered = build.tiered_of(self.config, self.model.layout, self.dataset, self.tier_sizes)
        ahead = gpu.plans_in_threads(self.config, self.tier_sizes)
        loader = self._stack.enter_context(
            loader_of(
                self.config, self.dataset, self.order, self.tier_sizes, tiered, self.skipping.wait
            )
        )
        history = self.skipping.history(self.dataset.train, self.config.batch_size, self._stack)
        with self.state.timed("plan"):
            plans = plans_from(
                self.state,
                Planner(tiered, row_filter=self.skipping.row_filter),
                loader,
                lambda: loader if ahead else self._batches(loader),
                self._stop_if_asked,
                again=tiered.remembers and not (self.skipping.on and history is None),
                skip_history=history,
            )
        # What is in the fast tier before the next plan is made: only then may a thread make it.
        self.engine.tables.keep(tiered.resident_rows(), self.state.step)
        due_steps = self.skipping.plan_ahead() if ahead else None
        coming = gpu.prepared_plans(
            self.config,
            self.tier_sizes,
            self.engine,
            plans,
            position=self.state.position,
            total=self.total,
            stack=self._stack,
            foresee=due_steps,
        )
        self._stack.callback(self.skipping.close)  # before threads end that may wait for it
        self._what_is_due()
        while not self.state.ended:
            self._stop_if_asked()
            with self.state.timed("plan"):
                some = next(coming, None)
            if some is None:
                break
            with self.state.timed("step"):
                self._step(some)
            clock = self.engine.tables.clock()
            for plan in some:
                self.state.stepped(plan, self.row_bytes, clock)
                clock = Clock()
                if plan.oversized_batch and self.state.transfers["oversized_steps"] == 1:
                    self.hooks.say(f"Step {plan.step} {DOES_NOT_FIT}")
                if plan is some[-1]:  # what is decided is told behind the reports before it
                    self._learn()
                if self.state.crossed(self.log_every):
                    self._report()
            self._what_is_due()
            self._save_if_due()
        self.state.ended = True

    def _batches(self, loader: Loader) -> Iterator[Batch]:
        """The batches, with the time that each takes counted as data and not as planning."""
        while True:
            begun = time.perf_counter()
            batch = next(loader, None)
            waited = time.perf_counter() - begun
            self.state.seconds["data"] += waited
            self.state.seconds["plan"] -= waited
            if batch is None:
                return
            yield batch

    def _step(self, plans: list[Plan]) -> None:
        position = self.state.position
        if plans[0].n_valid == 0:  # all inputs up to its end were skipped: it will say nothing
            self._hear(self.engine.remaining_results())
            self.engine.skip_step(plans[0])
            self._hear(self.engine.remaining_results())
            self._finished.append(FinishedStep(plans[0], position, plans[0].labels[:0]))
            return
        for plan in plans:
            self._began[plan.step], position = position, plan.next_position
        try:
            self._hear(self.engine.step_all(plans))
        except (SlipstreamError, OSError):
            raise
        except Exception:
            # Ctrl-C in a terminal also ends the compiler, which then fails; nothing has moved.
            if self.config.compile == "on" and self.hooks.stop():
                self._stop()
            raise
        if self.skipping.on:
            self._hear(self.engine.remaining_results(outstanding=self.skipping.outstanding(plans)))

    def _hear(self, said: Iterable[StepResult]) -> None:
        """Take what steps say of their batches, in their order."""
        for loss, logits, plan, needs in said:
            add_unplanned_lookups(self.state.transfers, needs)
            position = self._began.pop(plan.step)
            if not math.isfinite(loss):
                raise diverged_in(
                    plan, loss, logits, position, moved=not self.engine.returns_results_first
                )
            due = crossed(position, plan.next_position, self.log_every)
            self.reports.hear(plan, logits, due=due)
            if self.skipping.on:
                self._finished.append(FinishedStep(plan, position, logits))

    def _learn(self) -> None:
        """Let skipping learn from what steps have said, and decide."""
        steps, self._finished = self._finished, []
        for line in self.skipping.update(steps, self.state):
            self.reports.write(line)

    def _hear_all(self) -> None:
        """Have all steps say what they have to, and learn from it."""
        self._hear(self.engine.remaining_results())
        self._learn()

    def _what_is_due(self) -> None:
        """After a step: a report, scores. What was done before a stop is not done again."""
        state = self.state
        self.reports.tell(wait=False)
        if state.crossed(self.log_every):
            self._report()
        scored = [one["share"] for one in state.curve if one["total"] == self.total]
        for share in self.config.evaluate.at:
            if state.before < share * self.total <= state.position and share not in scored:
                self._score(share)
        if state.crossed(self.config.early_stopping.every_inputs):
            self._validate()
        self._tell_order()

    def _save_if_due(self) -> None:
        minutes = self.config.checkpoint.every_minutes
        late = minutes is not None and time.monotonic() - self._saved_at >= 60 * minutes
        if late or self.state.crossed(self.config.checkpoint.every_inputs):
            self._save()

    def _report(self) -> None:
        if self.state.reported == self.state.position:
            return
        self.state.reported = self.state.position
        self.reports.progress(self.state, heard=not self._began)

    def _score(self, share: float) -> Scores:
        """Score the evaluation part: a point of the learning curve."""
        scores = self._evaluate("evaluation", self.dataset.evaluation)
        line = {"kind": "evaluation", "position": self.state.position, "share": share}
        line |= {"inputs_trained": self.state.inputs_trained, **scores}
        self.state.curve.append(line | {"total": self.total})
        self.reports.write(line | {"train_seconds": self.state.train_seconds})
        return scores

    def _tell_order(self) -> None:
        """Give the order the loss that it asks for, of some inputs of the validation part."""
        if (number := self.order.pending_decision(self.state.position)) is None:
            return
        few = first_inputs(self.dataset.validation, RATE_INPUTS)
        scores = self._evaluate("ordering", few)
        assert scores["logloss"] is not None, "checked before training began"
        self.order.report_loss(number, scores["logloss"])
        self.state.decisions.append((number, scores["logloss"]))
        line = {"kind": "ordering", "position": self.state.position, "decision": number}
        self.reports.write(line | {"logloss": scores["logloss"]})

    def _validate(self) -> None:
        """Score the validation part, which steers; stop if it has not got better for long."""
        state, stop = self.state, self.config.early_stopping
        if state.validated == state.position:
            return
        scores = self._evaluate("validation", self.dataset.validation)
        assert scores["logloss"] is not None, "checked before training began"
        state.validated = state.position
        self.reports.write({"kind": "validation", "position": state.position, **scores})
        if not state.is_better(scores["logloss"]) and state.no_better >= stop.patience:
            state.ended = state.ended_early = True
            self.hooks.say(no_better(state, stop.patience))

    def _evaluate(self, part: str, inputs: Part) -> Scores:
        if self._scores is not None and self._scores[:2] == (self.state.step, part):
            return self._scores[2]  # one step can pass several points of evaluation
        size = self.config.batch_size
        done = 0

        def each(count: int) -> None:
            nonlocal done
            done += count
            self.hooks.report(Report(part, done, len(inputs)))
            self._stop_if_asked()

        with self.state.timed("step"):
            self._hear(self.engine.remaining_results())
        self._learn()
        with self.state.timed("evaluate"):
            mode = auc_mode(inputs)
            scores = evaluate(self.engine, self.placement, inputs, size, mode, each)
        self.peak.update()
        self.reports.again()
        self._scores = (self.state.step, part, scores)
        return scores

    def _save(self) -> None:
        """Begin a checkpoint of everything as it is now; it is written beside the next steps."""
        self._hear_all()
        self.reports.tell()
        if not self.engine.dense.finite:
            raise diverged_after(self.state.step)
        recent = self.reports.state_dict()
        self.engine.tables.flush()
        skipping = self.skipping.saved(self.state)
        self.saver.begin(
            self.state.step,
            self.engine.tables.stores,
            self.engine.dense.state_dict() | recent | skipping,
            {
                "dataset": self.dataset.manifest.checksum,
                "data": self.described,
                "lines": self.reports.secured(),
                "training": asdict(self.state),
            },
        )
        self._saved, self._saved_at = self.state.apart_from_time(), time.monotonic()

    def _save_what_is_new(self) -> None:
        if self.state.apart_from_time() != self._saved:
            self._save()
        elif self.state.step:
            self.saver.retire(self.state.step)

    def _stop_if_asked(self) -> None:
        if self.hooks.stop():
            self._stop()

    def _stop(self) -> None:
        """Save, and stop as was asked."""
        self._save_what_is_new()
        self.saver.close()
        raise StoppedError(
            f"Stopped at input {self.state.position:,} of {self.total:,}; everything up to there "
            "is saved."
        )

    def finish(self) -> dict[str, Any]:
        """Save, score the evaluation part for the last time, and write the summary."""
        self._hear_all()
        self._report()
        self._save_what_is_new()
        scores = self._score(self.state.position / self.total)
        self.saver.close()
        self.reports.secured()
        summary = summary_of(
            self.config, self.dataset, self.state, self.engine, scores, self.peak.bytes
        )
        summary |= self.skipping.summary(summary)
        self.run.write_summary(summary)
        return summary
