"""Skipping, as the training loop sees it: told of every step, it decides which inputs come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.data.batch import Batch
from slipstream.data.inputs import Array
from slipstream.order import Order
from slipstream.skip.classifier import Classifier
from slipstream.skip.context import Context, used_up
from slipstream.skip.control import ControlSample, LogitsOf
from slipstream.skip.decision import TRAIN_ALL, Decision, Decisions
from slipstream.skip.foresight import Foresight
from slipstream.skip.heard import Group, Heard, groups
from slipstream.skip.order import Skipped
from slipstream.skip.outcome import sentence, yardstick
from slipstream.skip.passed import Passed
from slipstream.skip.rule import Drawn, Rule
from slipstream.skip.rules import rule as rule_of
from slipstream.skip.tally import Tally
from slipstream.tables.plan import Masks, Plan

_MADE_UP = 0.5
_TABLES = 5  # that are named as keeping inputs from being skipped


class Skipper:
    """Takes the decisions of a run: at fixed positions, from what was trained up to there.

    Args:
        name: The rule's name.
        context: The run.
        order: The order in which its inputs come.
        lag: Batches from a decision to its effect.
        logits_of: The logits of inputs as the model is now, and their labels.
        remember: Whether to remember which inputs each step has skipped, for a placement that
            has to be told again after a stop.
    """

    def __init__(
        self,
        name: str,
        context: Context,
        order: Order,
        lag: int,
        logits_of: LogitsOf,
        *,
        remember: bool = False,
    ) -> None:
        self.name = name
        self.context, self._reader = context, context.reader
        kind = rule_of(name)
        self.rule = kind(context)
        explore = kind.EXPLORES if context.keys.explore is None else context.keys.explore
        self.classifier = Classifier(
            self.rule, self._reader, context.base, context.seed, explore, order
        )
        self.decisions = Decisions(lag)
        self.order = Skipped(order, self.classifier, self.decisions, context.most)
        self.tally = Tally()
        self.control = ControlSample(context.seed, context.every, logits_of)
        self._passed = Passed(context.base) if remember else None
        self.seconds = {"gather": 0.0, "search": 0.0, "control": 0.0}
        self._masks: tuple[int, Masks | None] = (0, None)

    def after(
        self, heard: Sequence[Heard], ends: Callable[[Plan], bool] = lambda _: True
    ) -> list[dict[str, Any]]:
        """What follows from steps; the lines to report.

        Args:
            heard: What the steps have said, in their order.
            ends: Says of the plan of a step whether something may be due after it.
        """
        lines = []
        for group in groups(heard, ends, self.context.base.per_epoch, self._reader.labels):
            lines += self._after(group)
        return lines

    def _after(self, group: Group) -> list[dict[str, Any]]:
        """What follows from steps of which nothing is due but after the last."""
        with self._timed("gather"):
            trained, skipped = (
                self._reader.read(one) if wanted else None
                for one, wanted in zip((group.trained, group.skipped), self.rule.SEES, strict=True)
            )
            self.rule.see(trained, skipped)
            self.tally.add(group)
            if self._passed is not None:
                for one in group.steps:
                    left = group.skipped[:0] if one.plan.skipped is None else one.plan.skipped
                    self._passed.add(one.before, one.plan.next_position, left)
        if self.decisions.last.number:
            with self._timed("control"):
                self.control.add(group.skipped)
                if self.control.due(group.last.before, group.last.plan.next_position):
                    self.control.score()
        plan, lines = group.last.plan, []
        with self._timed("search"):
            due = [self.rule.due(one.plan, one.before) for one in group.steps]
        assert not any(due[:-1]), "a group ends where a decision is due"
        if due[-1]:
            lines.append(self._decide(plan.step, plan.next_position))
        self.decisions.move_on(plan.step)
        return lines

    def foresight(self) -> Foresight:
        """Tells from here on, ahead of the steps, after which of them rows are looked at."""
        return Foresight(self.rule.calendar, self.control)

    def _decide(self, step: int, position: int) -> dict[str, Any]:
        """Take a decision from what is known now, after a step that ends at a position."""
        number = self.decisions.last.number + 1
        asked, explore = self._asked(number), self.classifier.explore
        wanted = asked
        if self.rule.MAKES_UP:
            # What was skipped too much or too little so far, a bounded part at a time; something
            # is always trained, or no batch would fill, and no other decision follow.
            # Decisions that wait for their first batch make up for it, too: each a part.
            ahead: float = len(self.context.base)
            if self.context.repeats:
                ahead = max(self.context.every, used_up(self.context.late, asked))
            most = _MADE_UP * asked
            made_up = float(np.clip(self.tally.owed / (2 * ahead), -most, most))
            wanted += min(made_up, _MADE_UP * (1 - asked))
        with self._timed("search"):
            frozen = self.rule.freeze()
            sample = self.rule.sample(self.classifier, position)
            frozen |= self.rule.fit(frozen, sample.drawn)
            found = self.rule.search(frozen, sample.drawn, min(1.0, wanted / (1 - explore)))
        about = {
            "decision": number,
            "asked": asked,
            "wanted": wanted,
            "reached": found.share * (1 - explore),
            "of_inputs": sample.share,
            "sample": found.inputs,
            "threshold": found.threshold if np.isfinite(found.threshold) else None,
            "why": found.why,
        }
        if asked > 0:
            self.decisions.take(found.threshold, frozen, about, step=step)
        else:
            self.decisions.take(TRAIN_ALL, {}, about, step=step)
        self.tally.decided(about, position)
        more: dict[str, Any] = {}
        with self._timed("search"):
            # Where the threshold is searched on hot inputs, what makes the others cold keeps them.
            drawn = sample.drawn if sample.share == 1 else self._coming(position)
            more["kept_by"] = self._kept_by(frozen, drawn, found.threshold)
        return {"kind": "skipping", "position": position, **about, **more}

    def _coming(self, position: int) -> Drawn:
        """Some of all inputs to come, hot or not."""
        return Rule.sample(self.rule, self.classifier, position).drawn

    def _kept_by(
        self, frozen: Mapping[str, Array], drawn: Drawn, threshold: float
    ) -> dict[str, float]:
        """The tables that keep inputs of a sample from being skipped, each with its share."""
        of_rows = self.rule.keeps(frozen)
        if of_rows is None or not len(drawn.accesses):
            return {}
        kept = ~(self.rule.score(frozen, drawn) < threshold)
        tables = drawn.accesses.foremost(of_rows)[kept]
        shares = np.bincount(tables[tables >= 0], minlength=len(self._reader.names)) / len(kept)
        best = np.argsort(-shares, kind="stable")[:_TABLES]
        return {self._reader.names[k]: float(shares[k]) for k in best if shares[k]}

    def moves(self, batch: Batch) -> Masks | None:
        """Which rows a batch moves, by the decision that holds for it; None moves all."""
        if self._masks[0] != batch.decision:
            one = next(one for one in self.decisions.all if one.number == batch.decision)
            still = None if one.trains_all else self.rule.still(one.frozen, one.threshold)
            masks = None if still is None else self.context.masks(still)
            made = None if masks is None else [torch.from_numpy(mask) for mask in masks]
            self._masks = (batch.decision, made)
        return self._masks[1]

    def passed(self) -> Passed | None:
        """The steps so far, as an order of their batches; None where they are not remembered."""
        if self._passed is not None:
            self._passed.decision = self.decisions.all[0].number
        return self._passed

    def _asked(self, number: int) -> float:
        """The share that a decision is asked for."""
        shares = self.context.keys.shares or (self.context.keys.target,)
        return shares[min(number, len(shares)) - 1]

    def state_dict(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What a checkpoint holds: as JSON, and as tensors by name."""
        live = [
            {"number": one.number, "step": one.step, "about": dict(one.about)}
            for one in self.decisions.all
        ]
        arrays = {f"rule.{name}": array for name, array in self.rule.state_dict().items()}
        for one in self.decisions.all:
            arrays[f"decision.{one.number}.threshold"] = np.array([one.threshold])
            for name, array in one.frozen.items():
                arrays[f"decision.{one.number}.frozen.{name}"] = array
        if self._passed is not None:
            arrays |= {f"passed.{name}": one for name, one in self._passed.state_dict().items()}
        state: dict[str, Any] = {"live": live, "tally": self.tally.state_dict()}
        state["seconds"] = self.overhead
        state["control"] = self.control.state_dict()
        return state, {name: torch.from_numpy(array) for name, array in arrays.items()}

    def load_state_dict(
        self, state: Mapping[str, Any], tensors: Mapping[str, Tensor], done: int
    ) -> None:
        """Go on from a checkpoint, after so many steps."""
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        self.rule.load_state_dict(_under(arrays, "rule."))
        self.decisions.done = done
        self.decisions.all = []
        for one in state["live"]:
            saved = _under(arrays, f"decision.{one['number']}.")
            self.decisions.all.append(
                Decision(
                    one["number"],
                    one["step"],
                    float(saved["threshold"][0]),
                    _under(saved, "frozen."),
                    one["about"],
                )
            )
        self.tally.load_state_dict(state["tally"])
        self.seconds = dict(state["seconds"])
        self.classifier.seconds = self.seconds.pop("classify")
        if self._passed is not None and (steps := _under(arrays, "passed.")):
            self._passed.load_state_dict(steps)
        else:
            self._passed = None  # begun otherwise, where they were not remembered
        self.control.load_state_dict(state["control"])

    def summary(self, summary: Mapping[str, Any], curve: Sequence[Mapping[str, Any]]) -> Any:
        """What a run's summary says of skipping.

        Args:
            summary: The rest of it.
            curve: The points of evaluation.
        """
        seconds = self.overhead
        cost = yardstick(curve, summary["skip_share"])
        counted = self.tally.summary()
        why = "" if summary["inputs_skipped"] else self.tally.why_nothing
        return {
            "rule": self.name,
            "sentence": sentence(
                self.name,
                {**summary, **counted},
                sum(seconds.values()),
                cost,
                self._how,
                why,
                self.tally.asked(sampled=not self.rule.MAKES_UP),
                (self.control.loss, counted["loss_trained"], self.control.scored),
            ),
            "why_nothing": why,
            "cost_at_random": None if cost is None else cost._asdict(),
            **counted,
            "loss_skipped": self.control.loss,
            "skipped_examples_scored": self.control.scored,
            "overhead_seconds": seconds,
            "overhead_bytes": self.bytes,
        }

    @property
    def overhead(self) -> dict[str, float]:
        """The seconds that skipping has taken so far, by what for."""
        return {"classify": self.classifier.seconds, **self.seconds}

    @property
    def _how(self) -> str:
        """What a reader should know of how it was skipped."""
        return "decided once" if self.rule.decides_once(self.context.keys) else ""

    @property
    def bytes(self) -> int:
        """Memory of what was gathered, of the decisions that hold, and of what is hot."""
        held = [array.nbytes for array in self.rule.state_dict().values()]
        frozen = [one.nbytes for decision in self.decisions.all for one in decision.frozen.values()]
        hot = 0 if self.context.hot is None else self.context.hot.nbytes
        return sum(held) + sum(frozen) + hot

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] += time.perf_counter() - begun


def _under(arrays: Mapping[str, Any], start: str) -> dict[str, Any]:
    return {name.removeprefix(start): one for name, one in arrays.items() if name.startswith(start)}
