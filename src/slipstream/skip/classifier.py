"""The input classifier: judges inputs by a rule and what was frozen for a decision."""

from __future__ import annotations

import time

import numpy as np

from slipstream.data.inputs import Array
from slipstream.order import InputOrder, Order, as_array
from slipstream.skip.accesses import Reader
from slipstream.skip.chance import uniform
from slipstream.skip.decision import Decision
from slipstream.skip.order import Verdict
from slipstream.skip.rule import Drawn, Rule

_RUN = 32  # consecutive inputs of a sample: they are far cheaper to find than inputs one by one


class Classifier:
    """Says of inputs whether they are trained: a pure function of a decision and their place.

    Args:
        rule: Scores inputs.
        reader: Reads what they access.
        base: The order of all inputs, nothing rearranged.
        seed: Of the run.
        explore: The share of inputs to be skipped that is trained all the same.
        order: The order in which they come, if it is another one.
    """

    def __init__(
        self,
        rule: Rule,
        reader: Reader,
        base: InputOrder,
        seed: int,
        explore: float,
        order: Order | None = None,
    ) -> None:
        self.rule, self._reader, self._base = rule, reader, base
        self._order = base if order is None else order
        self._seed, self.explore = seed, explore
        self.seconds = 0.0

    def __call__(self, decision: Decision, positions: Array, numbers: Array) -> Verdict:
        """The verdict on the inputs of these numbers, which stand at these positions."""
        if decision.trains_all:
            return Verdict(np.ones(len(numbers), dtype=bool), self._none(len(numbers)))
        begun = time.perf_counter()
        epochs = positions // max(1, self._base.per_epoch)
        drawn = self.drawn(numbers, epochs)
        train = ~(self.rule.score(decision.frozen, drawn) < decision.threshold)
        if self.explore:
            train |= uniform(self._seed, "explore", numbers, epochs) <= self.explore
        offset = self.rule.logit_offset(decision.frozen, decision.threshold, drawn)
        self.seconds += time.perf_counter() - begun
        return Verdict(train, self._none(len(numbers)) if offset is None else offset)

    def _none(self, inputs: int) -> Array | None:
        """Nothing added to logits; as zeros where that may change: batches are all of one kind."""
        return np.zeros(inputs, dtype=np.float32) if self.rule.CHANCES else None

    def drawn(self, numbers: Array, epochs: Array | int) -> Drawn:
        """Inputs with what they access, and a chance for each."""
        chance = uniform(self._seed, "judge", numbers, epochs)
        return Drawn(self._reader.read(numbers), chance)

    def sample(self, start: int, stop: int, count: int) -> Drawn:
        """About so many of the inputs at positions start to stop, evenly spread.

        Args:
            start: The first position.
            stop: The one behind the last; those behind the end of the order are left out.
            count: How many inputs.
        """
        stop = min(stop, len(self._base))
        size = max(0, stop - start)
        if size <= count:
            firsts, run = [start], size
        else:
            runs = max(1, count // _RUN)
            firsts, run = [start + (size - _RUN) * k // runs for k in range(runs)], _RUN
        if isinstance(self._order, InputOrder):
            pieces = [self._order.numbers(k, k + run) for k in firsts]
        else:
            coming = self._coming(start, start + size)
            pieces = [coming[k - start : k - start + run] for k in firsts]
        return self.drawn(np.concatenate(pieces), start // max(1, self._base.per_epoch))

    def _coming(self, start: int, stop: int) -> Array:
        """The inputs at positions start to stop of an order that rearranges them.

        Where it is not decided yet how, they are those of whole segments, whose inputs are the
        same in any order.
        """
        pieces = []
        for chunk in self._order.chunks(start, self.rule.context.batch_size):
            if chunk is None or start == stop:
                break
            pieces.append(as_array(chunk.numbers[: stop - start]))
            start += len(pieces[-1])
        return np.concatenate([*pieces, self._base.numbers(start, stop)])
