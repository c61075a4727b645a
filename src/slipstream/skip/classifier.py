"""Judges examples by a rule and the tables of a decision."""

from __future__ import annotations

import time

import numpy as np

from slipstream.arrays import Array
from slipstream.order import InputOrder, Order, as_array
from slipstream.skip.chance import uniform
from slipstream.skip.decision import Decision
from slipstream.skip.order import Verdict
from slipstream.skip.rule import Candidates, SkipRule, corrects

_RUN = 32  # consecutive examples of a sample: they are read faster than examples one by one


class Classifier:
    """Decides which examples are trained: a pure function of a decision and their positions.

    Args:
        rule: Scores examples.
        order: The order in which they come, if it is not the base order of the run.

    Attributes:
        explore: The share of examples to be skipped that is trained all the same.
        seconds: Time spent so far.
    """

    def __init__(self, rule: SkipRule, order: Order | None = None) -> None:
        self.rule, self._context, self._base = rule, rule.context, rule.context.base
        self._order = self._base if order is None else order
        self.explore: float = getattr(rule.options, "explore", 0.0)
        self.seconds = 0.0

    def __call__(self, decision: Decision, positions: Array, numbers: Array) -> Verdict:
        """The verdict on the examples of these numbers at these positions."""
        # All batches of a run are of one kind: zeros where an offset may come later.
        zeros = np.zeros(len(numbers), dtype=np.float32) if corrects(self.rule) else None
        if decision.trains_all:
            return Verdict(np.ones(len(numbers), dtype=bool), zeros)
        start = time.perf_counter()
        candidates = self.candidates(numbers, positions)
        train = ~(self.rule.score(decision.tables, candidates) < decision.threshold)
        if self.explore:
            epochs = self._epochs(positions)
            train |= uniform(self._context.seed, "explore", numbers, epochs) <= self.explore
        offset = self.rule.log_odds_offset(decision.tables, decision.threshold, candidates)
        self.seconds += time.perf_counter() - start
        return Verdict(train, zeros if offset is None else offset)

    def _epochs(self, positions: Array) -> Array:
        return positions // max(1, self._base.per_epoch)

    def candidates(self, numbers: Array, positions: Array) -> Candidates:
        """The examples of these numbers at these positions."""
        chance = uniform(self._context.seed, "judge", numbers, self._epochs(positions))
        return Candidates(self._context.reader.read(numbers), chance, positions)

    def sample(self, start: int, stop: int, count: int) -> Candidates:
        """About so many of the examples at positions start to stop, evenly spread.

        Args:
            start: The first position.
            stop: The position behind the last; those behind the end of the order are left out.
            count: How many examples.
        """
        size = max(0, min(stop, len(self._base)) - start)
        if size <= count:
            firsts, run = [start], size
        else:
            runs = max(1, count // _RUN)
            firsts, run = [start + (size - _RUN) * k // runs for k in range(runs)], _RUN
        if isinstance(self._order, InputOrder):
            pieces = [self._order.numbers(first, first + run) for first in firsts]
        else:
            coming = self._coming(start, start + size)
            pieces = [coming[first - start : first - start + run] for first in firsts]
        positions = np.concatenate([np.arange(first, first + run) for first in firsts])
        # The chances of a sample are those of its first epoch.
        epoch = start // max(1, self._base.per_epoch)
        numbers = np.concatenate(pieces)
        chance = uniform(self._context.seed, "judge", numbers, epoch)
        return Candidates(self._context.reader.read(numbers), chance, positions)

    def _coming(self, start: int, stop: int) -> Array:
        """The examples at positions start to stop of an order that rearranges them.

        Where it is not decided yet how, they are those of whole segments, whose examples are the
        same in any order.
        """
        pieces = []
        for chunk in self._order.chunks(start, self._context.batch_size):
            if chunk is None or start == stop:
                break
            pieces.append(as_array(chunk.numbers[: stop - start]))
            start += len(pieces[-1])
        return np.concatenate([*pieces, self._base.numbers(start, stop)])
