"""Skipping for the training loop: receives the result of every step, and takes decisions."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.arrays import Array
from slipstream.data.batch import Batch
from slipstream.pipeline.engine import StepResult
from slipstream.skip.context import order_span
from slipstream.skip.control import ControlSample
from slipstream.skip.counts import SkipCounts, sentence
from slipstream.skip.decision import TRAIN_ALL, Decision, Decisions
from slipstream.skip.history import SkipHistory
from slipstream.skip.judge import Judge
from slipstream.skip.order import SkippingOrder
from slipstream.skip.rule import Due, SkipRule
from slipstream.tables.plan import Masks, Plan

_AT_ONCE = 1 << 18  # examples of a group of steps: larger ones cost memory and save little time
_COMPENSATED = 0.5  # of the target at most, in a decision


class Skipper:
    """Takes the decisions of a run: at fixed positions, from the steps up to there.

    Args:
        name: The rule's name.
        rule: Scores examples.
        lag: Batches from a decision to its effect.
        logits_of: Scores examples, for the control sample.
        remember: Whether to keep the examples that each step has skipped, for a placement that
            has to plan the steps again after a stop.
    """

    def __init__(
        self,
        name: str,
        rule: SkipRule,
        lag: int,
        logits_of: Callable[[Array], tuple[Array, Array]],
        *,
        remember: bool = False,
    ) -> None:
        self.name, self.rule, self.context = name, rule, rule.context
        context = rule.context
        self.judge, self.decisions = Judge(rule), Decisions(lag)
        span = context.max_batch_span
        self.order = SkippingOrder(context.order, self.judge, self.decisions, span)
        self.counts = SkipCounts()
        self.control = ControlSample(context.seed, context.every, logits_of)
        self.history = SkipHistory(context.base) if remember else None
        self.seconds = 0.0
        self._masks: tuple[int, Masks | None] = (0, None)

    def update(self, results: Sequence[StepResult]) -> list[dict[str, Any]]:
        """Learn from steps, and take the decisions that are due; returns the lines to report.

        On a GPU many results come together. They are worked on in groups that end where something
        is due; the result is that of one by one.
        """
        lines: list[dict[str, Any]] = []
        group: list[StepResult] = []
        for result, following in zip_longest(results, results[1:]):
            plan = result.plan
            group.append(result)
            due = self.rule.due(plan, result.before)
            interval_ends = self.control.due(result.before, plan.next_position)
            if due or interval_ends or not self._joins(group[0], following):
                self._learn(group, interval_ends=interval_ends)
                if due == Due.SNAPSHOT:
                    with self._timed():
                        self.rule.snapshot()
                elif due == Due.DECISION:
                    lines.append(self._decide(plan.step, plan.next_position))
                self.decisions.move_on(plan.step)
                group = []
        return lines

    def _joins(self, first: StepResult, following: StepResult | None) -> bool:
        """Whether the following step belongs to the group of the first one.

        The steps of a group had the same decision and lie in the same epoch: no example comes
        twice.
        """
        if following is None or following.plan.decision != first.plan.decision:
            return False
        end, epoch = following.plan.next_position, max(1, self.context.base.per_epoch)
        return end - first.before <= _AT_ONCE and first.before // epoch == (end - 1) // epoch

    def _learn(self, results: list[StepResult], *, interval_ends: bool) -> None:
        """Learn from a group of steps."""
        reader, plans = self.context.reader, [result.plan for result in results]
        nothing = np.empty(0, dtype=np.int64)
        skipped_by_step = [nothing if plan.skipped is None else plan.skipped for plan in plans]
        with self._timed():
            skipped = reader.read(np.concatenate(skipped_by_step))
            if self.rule.observes != "nothing":
                trained = [plan.example_numbers[: plan.n_valid].numpy() for plan in plans]
                everything = self.rule.observes == "all"
                accesses = reader.read(np.concatenate(trained))
                self.rule.observe(accesses, skipped if everything else None)
            self.counts.add(results, skipped.labels)
            if self.history is not None:
                for result, numbers in zip(results, skipped_by_step, strict=True):
                    self.history.add(result.before, result.plan.next_position, numbers)
        if self.decisions.all[-1].number:
            with self._timed():
                self.control.add(skipped.example_numbers)
                if interval_ends:
                    self.control.score()

    def _decide(self, step: int, position: int) -> dict[str, Any]:
        """Take a decision after a step that ends at a position; returns the line to report."""
        number, targets = self.decisions.all[-1].number + 1, self.context.targets
        target = targets[min(number, len(targets)) - 1]
        wanted = target + self._compensation(target)
        judged = 1 - self.judge.explore
        with self._timed():
            sample = self.rule.sample(position)
            row_scores, threshold = self.rule.decide(sample, min(1.0, wanted / judged))
        about = {
            "decision": number,
            "target": target,
            "wanted": wanted,
            "reached": threshold.share * judged,
            "threshold": threshold.value if np.isfinite(threshold.value) else None,
            "why": threshold.why,
        }
        if target > 0:
            self.decisions.take(threshold.value, row_scores, step)
        else:
            self.decisions.take(TRAIN_ALL, {}, step)
        self.counts.add_decision(about, position)
        return {"kind": "skipping", "position": position, **about}

    def _compensation(self, target: float) -> float:
        """What a decision skips beside the target, for too much or too little skipped so far.

        A bounded part at a time; some examples are always trained, or no batch would fill. The
        decisions that wait for their first batch compensate too, each a part.
        """
        if not self.rule.compensates:
            return 0.0
        ahead = max(self.context.every, order_span(self.context.lag_examples, target))
        most = _COMPENSATED * target
        more = float(np.clip(self.counts.owed / (2 * ahead), -most, most))
        return min(more, _COMPENSATED * (1 - target))

    def moving_rows(self, batch: Batch) -> Masks | None:
        """Which rows a batch updates, by the decision that holds for it; None updates all."""
        if self._masks[0] != batch.decision:
            # A batch of the history has no decision, and is not trained again.
            known = {decision.number: decision for decision in self.decisions.all}
            decision, frozen = known.get(batch.decision, Decision()), None
            if not decision.trains_all:
                frozen = self.rule.frozen_rows(decision.row_scores, decision.threshold)
            masks = None if frozen is None else map(torch.from_numpy, self.context.moving(frozen))
            self._masks = (batch.decision, None if masks is None else list(masks))
        return self._masks[1]

    def state_dict(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The state for a checkpoint: as JSON, and as tensors by name."""
        arrays = {f"rule.{name}": array for name, array in self.rule.state_dict().items()}
        for each in self.decisions.all:
            arrays[f"decision.{each.number}.threshold"] = np.array([each.threshold])
            for name, array in each.row_scores.items():
                arrays[f"decision.{each.number}.row_scores.{name}"] = array
        if self.history is not None:
            steps = self.history.state_dict()
            arrays |= {f"history.{name}": array for name, array in steps.items()}
        state = {
            "decisions": [(each.number, each.step) for each in self.decisions.all],
            "counts": self.counts.state_dict(),
            "seconds": [self.judge.seconds, self.seconds],
            "control": self.control.state_dict(),
        }
        return state, {name: torch.from_numpy(array) for name, array in arrays.items()}

    def load_state_dict(
        self, state: Mapping[str, Any], tensors: Mapping[str, Tensor], done: int
    ) -> None:
        """Continue from a checkpoint, after so many steps."""
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        self.rule.load_state_dict(_under(arrays, "rule."))
        self.decisions.done = done
        self.decisions.all = []
        for number, step in state["decisions"]:
            saved = _under(arrays, f"decision.{number}.")
            threshold, row_scores = float(saved["threshold"][0]), _under(saved, "row_scores.")
            self.decisions.all.append(Decision(number, step, threshold, row_scores))
        self.counts.load_state_dict(state["counts"])
        self.judge.seconds, self.seconds = state["seconds"]
        if self.history is not None and (steps := _under(arrays, "history.")):
            self.history.load_state_dict(steps)
        else:
            self.history = None  # the checkpoint is of a run that did not keep them
        self.control.load_state_dict(state["control"])

    def summary(self, summary: Mapping[str, Any]) -> dict[str, Any]:
        """The part of a run's summary about skipping, from the rest of it."""
        skipping = {
            "rule": self.name,
            **self.counts.summary(),
            "loss_skipped": self.control.loss,
            "overhead_seconds": self.judge.seconds + self.seconds,
        }
        if summary["inputs_skipped"]:
            because = self.counts.share_and_target(of_sample=not self.rule.compensates)
        else:
            because = self.counts.why_nothing()
        text = sentence(self.name, {**summary, **skipping}, because)
        return {"sentence": text, **skipping}

    @contextmanager
    def _timed(self) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - start


class DueSteps:
    """The steps of coming plans after which something is due.

    A thread calls it with plans, in the order of their steps, before another thread trains them.
    """

    def __init__(self, skipper: Skipper) -> None:
        self._rule, self._control = copy.copy(skipper.rule), skipper.control
        self._steps: set[int] = set()  # few in a run

    def __call__(self, plan: Plan, before: int) -> bool:
        """Whether something is due after the step of a plan that begins at a position."""
        due = self._rule.due(plan, before) != Due.NOTHING
        due |= self._control.due(before, plan.next_position)
        if due:
            self._steps.add(plan.step)
        return due

    def includes(self, plan: Plan) -> bool:
        """Whether something is due after the step of a plan that it was called with."""
        return plan.step in self._steps


def _under(arrays: Mapping[str, Any], start: str) -> dict[str, Any]:
    return {
        name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)
    }
