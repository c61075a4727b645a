"""Skipping for the training loop: receives the result of every step, and takes decisions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.data.batch import Batch
from slipstream.order import Order
from slipstream.pipeline.engine import StepResult
from slipstream.skip.calendar import Due, DueSteps
from slipstream.skip.classifier import Classifier
from slipstream.skip.context import used_up
from slipstream.skip.control import ControlSample, LogitsOf
from slipstream.skip.counts import SkipCounts
from slipstream.skip.decision import TRAIN_ALL, Decision, Decisions
from slipstream.skip.history import SkipHistory
from slipstream.skip.order import SkippingOrder
from slipstream.skip.outcome import sentence
from slipstream.skip.rule import Candidates, RowTables, SkipRule
from slipstream.skip.steps import StepGroup, groups
from slipstream.tables.plan import Masks, Plan

_COMPENSATED = 0.5  # of the target at most, in a decision
_TABLES = 5  # that are reported as keeping examples from being skipped


class Skipper:
    """Takes the decisions of a run: at fixed positions, from the steps up to there.

    Args:
        name: The rule's name.
        rule: The rule.
        order: The order in which the examples of the run come.
        lag: Batches from a decision to its effect.
        logits_of: Scores examples, for the control sample.
        remember: Whether to keep the examples that each step has skipped, for a placement that
            has to plan the steps again after a stop.
    """

    def __init__(
        self,
        name: str,
        rule: SkipRule,
        order: Order,
        lag: int,
        logits_of: LogitsOf,
        *,
        remember: bool = False,
    ) -> None:
        self.name, self.rule, context = name, rule, rule.context
        self.context = context
        self.classifier = Classifier(rule, order)
        self.decisions = Decisions(lag)
        self.order = SkippingOrder(order, self.classifier, self.decisions, context.most_used_up)
        self.counts = SkipCounts()
        self.control = ControlSample(context.seed, context.every, logits_of)
        self._history = SkipHistory(context.base) if remember else None
        self.seconds = {"gather": 0.0, "decide": 0.0, "control": 0.0}
        self._masks: tuple[int, Masks | None] = (0, None)

    def update(
        self, steps: Sequence[StepResult], is_due: Callable[[Plan], bool] = lambda _: True
    ) -> list[dict[str, Any]]:
        """Learn from steps, and take the decisions that are due; returns the lines to report.

        Args:
            steps: The results of steps, in their order.
            is_due: Whether something may be due after the step of a plan.
        """
        lines = []
        for group in groups(steps, is_due, self.context.base.per_epoch):
            lines += self._update(group)
        return lines

    def _update(self, group: StepGroup) -> list[dict[str, Any]]:
        """Learn from steps after the last of which something may be due."""
        with self._timed("gather"):
            skipped = self.context.reader.read(group.skipped)
            if self.rule.observes != "nothing":
                everything = self.rule.observes == "all"
                trained = self.context.reader.read(group.trained)
                self.rule.observe(trained, skipped if everything else None)
            self.counts.add(group, skipped.labels)
            if self._history is not None:
                for step in group.steps:
                    left_out = step.plan.skipped
                    left_out = group.skipped[:0] if left_out is None else left_out
                    self._history.add(step.before, step.plan.next_position, left_out)
        plan, lines = group.last.plan, []
        if self.decisions.last.number:
            with self._timed("control"):
                self.control.add(group.skipped)
                if self.control.due(group.last.before, plan.next_position):
                    self.control.score()
        due = [self.rule.calendar.after(step.plan, step.before) for step in group.steps]
        assert not any(due[:-1]), "a group ends where something is due"
        if due[-1] == Due.SNAPSHOT:
            with self._timed("decide"):
                self.rule.snapshot()
        if due[-1] == Due.DECISION:
            lines.append(self._decide(plan.step, plan.next_position))
        self.decisions.move_on(plan.step)
        return lines

    def due_steps(self) -> DueSteps:
        """Which of the coming steps are followed by a decision, a snapshot or a control sample."""
        return DueSteps(self.rule.calendar, self.control)

    def _decide(self, step: int, position: int) -> dict[str, Any]:
        """Take a decision after a step that ends at a position; returns the line to report."""
        number = self.decisions.last.number + 1
        schedule = self.context.keys.target_schedule or (self.context.keys.target,)
        target = schedule[min(number, len(schedule)) - 1]
        wanted = target + self._compensation(target)
        explored = 1 - self.classifier.explore
        with self._timed("decide"):
            sample = self.rule.sample(self.classifier, position)
            tables, threshold = self.rule.decide(sample, min(1.0, wanted / explored))
        about = {
            "decision": number,
            "target": target,
            "wanted": wanted,
            "reached": threshold.share * explored,
            "of_sample": sample.share,
            "sample": threshold.examples,
            "threshold": threshold.value if np.isfinite(threshold.value) else None,
            "why": threshold.why,
        }
        if target > 0:
            self.decisions.take(threshold.value, tables, about, step=step)
        else:
            self.decisions.take(TRAIN_ALL, {}, about, step=step)
        self.counts.add_decision(about, position)
        with self._timed("decide"):
            # A sample of hot examples does not show the rows that make the others cold.
            if sample.share != 1:
                sample = SkipRule.sample(self.rule, self.classifier, position)
            blocking = self._blocking_tables(tables, sample, threshold.value)
        return {"kind": "skipping", "position": position, **about, "blocking_tables": blocking}

    def _compensation(self, target: float) -> float:
        """What a decision skips beside the target, for too much or too little skipped so far.

        A bounded part at a time; some examples are always trained, or no batch would fill. The
        decisions that wait for their first batch compensate too, each a part.
        """
        if not self.rule.compensates:
            return 0.0
        ahead = max(self.context.every, used_up(self.context.late, target))
        most = _COMPENSATED * target
        more = float(np.clip(self.counts.owed / (2 * ahead), -most, most))
        return min(more, _COMPENSATED * (1 - target))

    def _blocking_tables(
        self, tables: RowTables, sample: Candidates, threshold: float
    ) -> dict[str, float]:
        """The tables that keep examples of a sample from being skipped, each with its share."""
        of_rows = self.rule.blocking(tables)
        if of_rows is None or not len(sample):
            return {}
        trained = ~(self.rule.score(tables, sample) < threshold)
        numbers = sample.accesses.table_of_largest(of_rows)[trained]
        names = self.context.reader.names
        shares = np.bincount(numbers[numbers >= 0], minlength=len(names)) / len(trained)
        most = np.argsort(-shares, kind="stable")[:_TABLES]
        return {names[k]: float(shares[k]) for k in most if shares[k]}

    def moving_rows(self, batch: Batch) -> Masks | None:
        """Which rows a batch updates, by the decision that holds for it; None updates all."""
        if self._masks[0] != batch.decision:
            decision = next(each for each in self.decisions.all if each.number == batch.decision)
            frozen = None
            if not decision.trains_all:
                frozen = self.rule.frozen_rows(decision.tables, decision.threshold)
            masks = None if frozen is None else map(torch.from_numpy, self.context.moving(frozen))
            self._masks = (batch.decision, None if masks is None else list(masks))
        return self._masks[1]

    def history(self) -> SkipHistory | None:
        """The steps so far, as an order of their batches; None where they are not kept."""
        if self._history is not None:
            self._history.decision = self.decisions.all[0].number
        return self._history

    def state_dict(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The state for a checkpoint: as JSON, and as tensors by name."""
        decisions = [
            {"number": each.number, "step": each.step, "about": dict(each.about)}
            for each in self.decisions.all
        ]
        arrays = {f"rule.{name}": array for name, array in self.rule.state_dict().items()}
        for each in self.decisions.all:
            arrays[f"decision.{each.number}.threshold"] = np.array([each.threshold])
            for name, array in each.tables.items():
                arrays[f"decision.{each.number}.tables.{name}"] = array
        if self._history is not None:
            steps = self._history.state_dict()
            arrays |= {f"history.{name}": array for name, array in steps.items()}
        state = {
            "decisions": decisions,
            "counts": self.counts.state_dict(),
            "seconds": self.overhead,
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
        for each in state["decisions"]:
            saved = _under(arrays, f"decision.{each['number']}.")
            threshold, tables = float(saved["threshold"][0]), _under(saved, "tables.")
            decision = Decision(each["number"], each["step"], threshold, tables, each["about"])
            self.decisions.all.append(decision)
        self.counts.load_state_dict(state["counts"])
        self.seconds = dict(state["seconds"])
        self.classifier.seconds = self.seconds.pop("classify")
        if self._history is not None and (steps := _under(arrays, "history.")):
            self._history.load_state_dict(steps)
        else:
            self._history = None  # the checkpoint is of a run that did not keep them
        self.control.load_state_dict(state["control"])

    def summary(self, summary: Mapping[str, Any]) -> dict[str, Any]:
        """The part of a run's summary about skipping, from the rest of it."""
        why = "" if summary["inputs_skipped"] else self.counts.why_nothing
        skipping = {
            "rule": self.name,
            "why_nothing": why,
            **self.counts.summary(),
            "loss_skipped": self.control.loss,
            "skipped_examples_scored": self.control.scored,
            "overhead_seconds": self.overhead,
            "overhead_bytes": self.nbytes,
        }
        target = self.counts.share_and_target(of_sample=not self.rule.compensates)
        seconds = sum(self.overhead.values())
        text = sentence(self.name, {**summary, **skipping}, seconds, target=target, why=why)
        return {"sentence": text, **skipping}

    @property
    def overhead(self) -> dict[str, float]:
        """The seconds that skipping has taken so far, by purpose."""
        return {"classify": self.classifier.seconds, **self.seconds}

    @property
    def nbytes(self) -> int:
        """Memory of the rule's state, of the decisions that hold, and of the hot rows."""
        arrays = list(self.rule.state_dict().values())
        arrays += [array for each in self.decisions.all for array in each.tables.values()]
        hot = 0 if self.context.hot is None else self.context.hot.nbytes
        return sum(array.nbytes for array in arrays) + hot

    @contextmanager
    def _timed(self, purpose: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[purpose] += time.perf_counter() - start


def _under(arrays: Mapping[str, Any], start: str) -> dict[str, Any]:
    return {
        name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)
    }
