"""The training loop: the path of one batch, from the order of examples to a checkpoint.

On a CPU a batch meets these threads and buffers, in this order:

| thread     | work                                     | the result waits in                |
|------------|------------------------------------------|------------------------------------|
| loader     | read examples, in the order of the run   | batches of `Loader`, one ahead     |
| training   | plan: distinct rows, which rows to move  | window of plans; 3 prepared plans  |
| row thread | read rows from the slow store            | staged rows of `Mover`, by plan    |
| training   | put rows into the fast tier              | slots of the fast tier             |
| training   | look up, predict, loss, backward         | `StepResult`, gradients            |
| training   | update rows and dense weights            | fast tier; without one, slow store |
| row thread | write rows back that leave the fast tier | slow store                         |
| training   | report, decide what to skip, evaluate    | ring of the last 65,536 logits     |
| checkpoint | write files beside the next steps        | `FrozenRows`: rows as they were    |

Without a fast tier there is no row thread. A GPU replaces all from the plan to the `StepResult`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from slipstream import gpu
from slipstream.config import Config
from slipstream.data.dataset import Dataset, Part
from slipstream.errors import SlipstreamError
from slipstream.models import Model
from slipstream.pipeline.engine import StepResult, prefetch_rows
from slipstream.pipeline.place.counting import add_unplanned_lookups
from slipstream.pipeline.schedule import crossed, rate
from slipstream.tables.mover import Clock
from slipstream.tables.plan import Plan, Planner
from slipstream.tables.sizes import row_bytes
from slipstream.training.build import engine_of
from slipstream.training.checkpoint import Checkpoints, WholeCheckpoint, load
from slipstream.training.dataset_compatibility import dataset_description
from slipstream.training.diverged import diverged_after, diverged_in
from slipstream.training.evaluation import RATE_INPUTS, auc_mode, evaluate, first_inputs
from slipstream.training.example_order import loader_of, order_of
from slipstream.training.init_from import WarmStart
from slipstream.training.metrics import Scores
from slipstream.training.placement import placement_for, slow_placement, tier_sizes_of
from slipstream.training.process_memory import MemoryPeak
from slipstream.training.progress import Progress
from slipstream.training.reports import Reports, report_every
from slipstream.training.resume import plans_from, restore_order, timed_batches
from slipstream.training.run import Run
from slipstream.training.skip import Skipping
from slipstream.training.state import OVERSIZED, Hooks, RunState, StoppedError, no_improvement
from slipstream.training.summary import summary_of

KEPT_CHECKPOINTS = 2  # on the disk: the newest, and the one before in case it is damaged


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
        self.model, self._stack = model, stack
        self.total = len(order_of(config, dataset))
        self.log_every = report_every(config.batch_size, self.total)
        self.checkpoints = stack.enter_context(Checkpoints(run.checkpoints, KEPT_CHECKPOINTS))
        self.description = dataset_description(dataset)
        self.scoring_placement = slow_placement(model.layout, dataset)
        self.row_bytes = row_bytes(model.layout)
        self.state = RunState(self.total)
        self.peak = MemoryPeak()
        stack.callback(self.peak.close)
        self._saved, self._saved_at = self.state.without_times(), time.monotonic()
        self._scores: tuple[int, str, Scores] | None = None
        self._results: list[StepResult] = []  # that skipping has not seen yet
        self._outstanding: dict[int, int] = {}  # step without a result -> position before it

    def start(self, checkpoint: WholeCheckpoint | None, warm: WarmStart | None) -> None:
        """Begin with fresh weights, with another run's weights, or from a checkpoint."""
        config, dataset, layout = self.config, self.dataset, self.model.layout
        gpu.reset_peak_memory(config.device)
        self.tier_sizes = tier_sizes_of(config, layout, dataset)
        self.engine = engine_of(
            config,
            self.model,
            steps=0,  # decides only about compile: auto, and this configuration has on or off
            fresh=checkpoint is None,  # a checkpoint overwrites all rows
            tier_sizes=self.tier_sizes,
            on_message=self.hooks.on_message,
        )
        self._stack.callback(self.engine.tables.close)
        self.engine.tables.before_write = self.checkpoints.before_update
        in_thread = not self.engine.returns_results_first
        self.reports = Reports(self.run, self.hooks, in_thread=in_thread, stack=self._stack)
        length, tensors = 0, None
        if checkpoint is not None:
            tensors, saved = load(checkpoint, self.engine.tables.stores)
            self.engine.dense.load_state_dict(tensors)
            self.reports.load_state_dict(tensors)
            self.state, length = RunState(**saved["training"]), saved["lines"]
            self._saved = self.state.without_times()
            self.hooks.on_message(f"Resuming at example {self.state.position:,} of {self.total:,}.")
        elif warm is not None:
            self.state.init_from = warm.fill(self.engine)
        self.skipping = Skipping.of(config, layout, dataset, self.tier_sizes, self.engine)
        self.order = self.skipping.order
        self.skipping.restore(self.state, tensors, self.hooks)
        restore_order(self.state, order_of(config, dataset), self.order)
        self.reports.open(length, config, self.state.position)
        if self.state.total != self.total:
            self._change_end()

    def _change_end(self) -> None:
        """Continue with more or fewer epochs: the rest of the run has a new number of examples."""
        before = self.state.total
        self.hooks.on_message(
            f"The run now ends at example {self.total:,} instead of {before:,}. Decay of learning "
            "rates and points of evaluation follow that from here on."
        )
        if self.state.position == before and self.total > before:
            self._score(before / self.total)  # the old end is a point of the curve
            self.state.ended = self.state.ended_early
        self.state.total = self.total
        if self.state.ended_early:
            self.hooks.on_message("Validation did not improve before: training has ended.")

    def train(self) -> None:
        """Train until no example is left, or until validation does not improve."""
        groups = self._prepared_plans()
        self._stack.callback(self.skipping.close)  # before threads end that may wait for it
        self._after_step()
        while not self.state.ended:
            self._stop_if_requested()
            with self.state.timed("plan"):
                plans = next(groups, None)
            if plans is None:
                break
            with self.state.timed("step"):
                self._step(plans)
            self._count(plans)
            self._after_step()
            self._save_if_due()
        self.state.ended = True

    def _prepared_plans(self) -> Iterator[list[Plan]]:
        """Read and plan batches, and fetch their rows; a GPU takes several plans at once."""
        config, state, stack = self.config, self.state, self._stack
        placement = placement_for(config, self.model.layout, self.dataset, self.tier_sizes)
        in_threads = gpu.plans_in_threads(config, self.tier_sizes)
        loader = stack.enter_context(
            loader_of(
                config, self.dataset, self.order, self.tier_sizes, placement, self.skipping.wait
            )
        )
        history = self.skipping.history(self.dataset.train, config.batch_size, stack)
        with state.timed("plan"):
            plans = plans_from(
                state,
                Planner(placement, row_filter=self.skipping.row_filter),
                loader,
                lambda: loader if in_threads else timed_batches(loader, state),
                self._stop_if_requested,
                again=placement.remembers and not (self.skipping.on and history is None),
                skip_history=history,
            )
        # Before the first plan: a thread that plans changes the placement.
        self.engine.tables.keep(placement.resident_rows(), state.step)
        if not in_threads:
            return ([plan] for plan in prefetch_rows(self.engine, plans, self._rate))
        return gpu.prepared_plans(
            config,
            self.tier_sizes,
            self.engine,
            plans,
            position=state.position,
            total=self.total,
            stack=stack,
            foresee=self.skipping.plan_ahead(),
        )

    def _rate(self, plan: Plan) -> float:
        """The factor of all learning rates in the step of a plan."""
        return rate(self.config.schedule, plan.next_position, self.total)

    def _step(self, plans: list[Plan]) -> None:
        """Make the steps of some plans, and collect the results that are there."""
        position = self.state.position
        if plans[0].n_valid == 0:  # all of its examples were skipped: the step has no result
            self.collect(self.engine.remaining_results())
            self.engine.skip_step(plans[0])
            self.collect(self.engine.remaining_results())
            no_logits = plans[0].labels[:0]
            self._results.append(StepResult(0.0, no_logits, plans[0], before=position))
            return
        for plan in plans:
            self._outstanding[plan.step], position = position, plan.next_position
        try:
            self.collect(self.engine.step_all(plans))
        except (SlipstreamError, OSError):
            raise
        except Exception:
            # Ctrl-C in a terminal also ends the compiler, which then fails; nothing was updated.
            if self.config.compile == "on" and self.hooks.should_stop():
                self._stop()
            raise
        if self.skipping.on:
            outstanding = self.skipping.outstanding(plans)
            self.collect(self.engine.remaining_results(outstanding))

    def collect(self, results: Iterable[StepResult]) -> None:
        """Take the results of steps, in the order of the steps."""
        for result in results:
            plan = result.plan
            result = result._replace(before=self._outstanding.pop(plan.step))
            add_unplanned_lookups(self.state.transfers, result.unplanned_lookups)
            if not math.isfinite(result.loss):
                raise diverged_in(result, updated=not self.engine.returns_results_first)
            due = crossed(result.before, plan.next_position, self.log_every)
            self.reports.add(plan, result.logits, due=due)
            if self.skipping.on:
                self._results.append(result)

    def _count(self, plans: list[Plan]) -> None:
        """Count steps that were made; a report may be due after any of them."""
        clock = self.engine.tables.clock()
        for plan in plans:
            self.state.count_step(plan, self.row_bytes, clock)
            clock = Clock()
            if plan.oversized_batch and self.state.transfers["oversized_steps"] == 1:
                self.hooks.on_message(f"Step {plan.step} {OVERSIZED}")
            if plan is plans[-1]:  # the lines of decisions follow the reports before them
                self.update_skipping()
            if self.state.crossed(self.log_every):
                self._report()

    def update_skipping(self) -> None:
        """Let the skip rule learn from the results, and decide."""
        results, self._results = self._results, []
        for line in self.skipping.update(results, self.state):
            self.reports.write(line)

    def drain(self) -> None:
        """Wait for the results of all steps, and let the skip rule learn from them."""
        self.collect(self.engine.remaining_results())
        self.update_skipping()

    def _after_step(self) -> None:
        """Report and evaluate as far as it is due; nothing is done again after a stop."""
        state = self.state
        self.reports.write_due(wait=False)
        if state.crossed(self.log_every):
            self._report()
        shares = [point["share"] for point in state.curve if point["total"] == self.total]
        for share in self.config.evaluate.at:
            if state.before < share * self.total <= state.position and share not in shares:
                self._score(share)
        if state.crossed(self.config.early_stopping.every_inputs):
            self._validate()
        self._report_loss_to_order()

    def _report(self) -> None:
        if self.state.reported == self.state.position:
            return
        self.state.reported = self.state.position
        self.reports.add_progress(self.state, complete=not self._outstanding)

    def _score(self, share: float) -> Scores:
        """Score the evaluation part: a point of the learning curve."""
        scores = self._evaluate("evaluation", self.dataset.evaluation)
        line = {"kind": "evaluation", "position": self.state.position, "share": share}
        line |= {"inputs_trained": self.state.inputs_trained, **scores}
        self.state.curve.append(line | {"total": self.total})
        self.reports.write(line | {"train_seconds": self.state.train_seconds})
        return scores

    def _validate(self) -> None:
        """Score the validation part; end training if it has not improved for long."""
        state, patience = self.state, self.config.early_stopping.patience
        if state.validated == state.position:
            return
        scores = self._evaluate("validation", self.dataset.validation)
        assert scores["logloss"] is not None, "checked before training began"
        state.validated = state.position
        self.reports.write({"kind": "validation", "position": state.position, **scores})
        if not state.is_better(scores["logloss"]) and state.no_better >= patience:
            state.ended = state.ended_early = True
            self.hooks.on_message(no_improvement(state, patience))

    def _report_loss_to_order(self) -> None:
        """Give the order the validation loss that its next decision needs, if one is due."""
        if (number := self.order.pending_decision(self.state.position)) is None:
            return
        scores = self._evaluate("ordering", first_inputs(self.dataset.validation, RATE_INPUTS))
        loss = scores["logloss"]
        assert loss is not None, "checked before training began"
        self.order.report_loss(number, loss)
        self.state.decisions.append((number, loss))
        line = {"kind": "ordering", "position": self.state.position, "decision": number}
        self.reports.write(line | {"logloss": loss})

    def _evaluate(self, phase: str, part: Part) -> Scores:
        if self._scores is not None and self._scores[:2] == (self.state.step, phase):
            return self._scores[2]  # one step can pass several points of evaluation
        done = 0

        def on_batch(count: int) -> None:
            nonlocal done
            done += count
            self.hooks.on_progress(Progress(phase, done, len(part)))
            self._stop_if_requested()

        with self.state.timed("step"):
            self.collect(self.engine.remaining_results())
        self.update_skipping()
        with self.state.timed("evaluate"):
            size, mode = self.config.batch_size, auc_mode(part)
            scores = evaluate(self.engine, self.scoring_placement, part, size, mode, on_batch)
        self.peak.update()
        self.reports.repeat_last()
        self._scores = (self.state.step, phase, scores)
        return scores

    def _save_if_due(self) -> None:
        minutes = self.config.checkpoint.every_minutes
        late = minutes is not None and time.monotonic() - self._saved_at >= 60 * minutes
        if late or self.state.crossed(self.config.checkpoint.every_inputs):
            self._save()

    def _save(self) -> None:
        """Begin a checkpoint of the present state; a thread writes it beside the next steps."""
        self.drain()
        self.reports.write_due()
        if not self.engine.dense.finite:
            raise diverged_after(self.state.step)
        recent = self.reports.state_dict()
        self.engine.tables.flush()
        skipping = self.skipping.saved(self.state)
        self.checkpoints.begin(
            self.state.step,
            self.engine.tables.stores,
            self.engine.dense.state_dict() | recent | skipping,
            {
                "dataset": self.dataset.manifest.checksum,
                "data": self.description,
                "lines": self.reports.flush(),
                "training": asdict(self.state),
            },
        )
        self._saved, self._saved_at = self.state.without_times(), time.monotonic()

    def _save_changes(self) -> None:
        """Save unless the newest checkpoint already has this state."""
        if self.state.without_times() != self._saved:
            self._save()
        elif self.state.step:
            self.checkpoints.retire(self.state.step)

    def _stop_if_requested(self) -> None:
        if self.hooks.should_stop():
            self._stop()

    def _stop(self) -> None:
        """Save, and stop."""
        self._save_changes()
        self.checkpoints.close()
        raise StoppedError(
            f"Stopped at example {self.state.position:,} of {self.total:,}; everything up to there "
            "is saved."
        )

    def finish(self) -> dict[str, Any]:
        """Save, score the evaluation part for the last time, and write the summary."""
        self.drain()
        self._report()
        self._save_changes()
        scores = self._score(self.state.position / self.total)
        self.checkpoints.close()
        self.reports.flush()
        summary = summary_of(
            self.config, self.dataset, self.state, self.engine, scores, self.peak.bytes
        )
        summary |= self.skipping.summary(summary)
        self.run.write_summary(summary)
        return summary
