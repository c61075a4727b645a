"""Skipping, as the training loop sees it: told of every step, it decides which inputs come."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.config import Skip
from slipstream.data.dataset import Part
from slipstream.errors import ConfigError
from slipstream.ordering import InputOrder, Order
from slipstream.plan import Plan
from slipstream.skipping.accesses import Reader
from slipstream.skipping.classifier import Classifier
from slipstream.skipping.decision import TRAIN_ALL, Decision, Decisions
from slipstream.skipping.order import Skipped
from slipstream.skipping.rules import rule as rule_of
from slipstream.skipping.tally import Tally

WARMUP = 0.1
_MADE_UP = 0.5


class Skipper:
    """Takes the decisions of a run: at fixed positions, from what was trained up to there.

    Args:
        name: The rule's name.
        keys: The section `skip` of the configuration.
        part: The training part.
        base: The order of all inputs, nothing rearranged.
        order: The order in which they come.
        lag: Batches from a decision to its effect.
        seed: Of the run.
    """

    def __init__(
        self,
        name: str,
        keys: Skip,
        part: Part,
        base: InputOrder,
        order: Order,
        lag: int,
        seed: int,
    ) -> None:
        self.keys, self._base = keys, base
        self._reader = Reader(part)
        kind = rule_of(name)
        self.rule = kind(keys, self._reader)
        explore = kind.EXPLORES if keys.explore is None else keys.explore
        if explore and kind.CHANCES:
            raise ConfigError(
                f"skip.explore is {explore}, but {name} trains every input with some chance: "
                "nothing is left to explore. Leave it out."
            )
        self.classifier = Classifier(self.rule, self._reader, base, seed, explore)
        self.decisions = Decisions(lag)
        self.order = Skipped(order, self.classifier, self.decisions)
        self.tally = Tally()
        self.seconds = {"gather": 0.0, "search": 0.0}
        warmup = WARMUP if keys.warmup is None else keys.warmup
        self._first = max(1, round(warmup * base.per_epoch))
        self._every = max(1, round(keys.interval * base.per_epoch))

    def after(self, plan: Plan, before: int, logits: Tensor) -> list[dict[str, Any]]:
        """What follows from a step; the lines to report.

        Args:
            plan: Of the step.
            before: The position before it.
            logits: The predictions of its inputs, before anything moved.
        """
        self.decisions.done = plan.step
        with self._timed("gather"):
            trained = self._reader.read(plan.numbers[: plan.n_valid].numpy())
            nothing = trained.numbers[:0]
            skipped = self._reader.read(nothing if plan.skipped is None else plan.skipped)
            self.rule.see(trained, skipped)
            self.tally.add(plan, trained.labels, skipped.labels, logits)
        if not self._due(before, plan.next_position):
            self.decisions.forget()
            return []
        return [self._decide(plan.next_position)]

    def _due(self, before: int, position: int) -> bool:
        """Whether a step has passed a position at which a decision is taken."""
        if position < self._first or position >= len(self._base):
            return False
        if self.keys.repeat is False:
            return before < self._first
        passed = [(at - self._first) // self._every for at in (before, position)]
        return before < self._first or passed[1] > passed[0]

    def _decide(self, position: int) -> dict[str, Any]:
        """Take a decision from what is known now."""
        number = self.decisions.last.number + 1
        asked = self._asked(number)
        repeats = self.keys.repeat is not False
        horizon = self._every if repeats else len(self._base) - position
        # What was skipped too much or too little so far is made up for, a bounded part at a time.
        most = _MADE_UP * asked
        wanted = asked + float(np.clip(self.tally.owed / (2 * horizon), -most, most))
        explore = self.classifier.explore
        with self._timed("search"):
            frozen = self.rule.freeze()
            count = self.keys.sample_inputs
            sample = self.classifier.sample(position, position + horizon, count)
            frozen |= self.rule.fit(frozen, sample)
            scores = self.rule.score(frozen, sample)
            found = self.rule.search(scores, min(1.0, wanted / (1 - explore)))
        about = {
            "decision": number,
            "asked": asked,
            "wanted": wanted,
            "expected": found.share * (1 - explore),
            "why": found.why,
        }
        if asked > 0:
            self.decisions.take(found.threshold, frozen, about)
        else:
            self.decisions.take(TRAIN_ALL, {}, about)
        self.tally.decided(about, position)
        return {"kind": "skipping", "position": position, **about}

    def _asked(self, number: int) -> float:
        """The share that a decision is asked for."""
        shares = self.keys.shares or (self.keys.target,)
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
        state = {"live": live, "tally": self.tally.state_dict()}
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

    def summary(self) -> dict[str, Any]:
        """What a run's summary says of skipping."""
        return {
            **self.tally.summary(),
            "overhead_seconds": {"classify": self.classifier.seconds, **self.seconds},
            "overhead_bytes": self.bytes,
        }

    @property
    def bytes(self) -> int:
        """Memory of what was gathered and of the decisions that hold."""
        held = [array.nbytes for array in self.rule.state_dict().values()]
        frozen = [one.nbytes for decision in self.decisions.all for one in decision.frozen.values()]
        return sum(held) + sum(frozen)

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] += time.perf_counter() - begun


def _under(arrays: Mapping[str, Any], start: str) -> dict[str, Any]:
    return {name.removeprefix(start): one for name, one in arrays.items() if name.startswith(start)}
