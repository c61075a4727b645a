"""Numbered decisions: the threshold and row scores of each, and for which batches it holds."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from slipstream.arrays import Array
from slipstream.errors import SlipstreamError

TRAIN_ALL = -np.inf


@dataclass(frozen=True)
class Decision:
    """What decides about the examples of some batches.

    Args:
        number: Decisions are counted from 0, which trains all.
        step: Steps that were done when it was taken.
        threshold: Examples whose score is below it are skipped.
        row_scores: The rule's numbers for each row, which stay as they are.
    """

    number: int = 0
    step: int = -1
    threshold: float = TRAIN_ALL
    row_scores: Mapping[str, Array] = field(default_factory=dict)

    @property
    def trains_all(self) -> bool:
        """Whether nothing is skipped."""
        return self.threshold == TRAIN_ALL


class Decisions:
    """The decisions that still hold for a batch to come, and how far training is.

    A decision that was taken after step s holds from batch s + lag + 1 on. So the decision of a
    batch depends on the steps before it alone, never on how far ahead it is read. One thread may
    look up decisions while another takes them.

    Args:
        lag: Batches from a decision to its effect.

    Attributes:
        done: Steps whose decisions have been taken. While another thread waits only `move_on`
            changes it.
        all: The decisions, the last one behind; it may not hold yet.

    Example:
        >>> decisions = Decisions(lag=2)
        >>> decisions.done = 5
        >>> decisions.take(threshold=0.3, row_scores={})
        >>> [decisions.of(batch).number for batch in (6, 7, 8)], decisions.of(9)
        ([0, 0, 1], None)
    """

    def __init__(self, lag: int) -> None:
        self.lag, self.done, self.all = lag, 0, [Decision()]
        self._changed = threading.Condition()
        self._closed = False

    def of(self, batch: int) -> Decision | None:
        """The decision for a batch, by its number from 1; None while it is not known."""
        return self._before(batch) if batch - self.lag - 1 <= self.done else None

    def _before(self, batch: int) -> Decision:
        last = batch - self.lag - 1
        earlier = (decision for decision in reversed(self.all) if decision.step <= last)
        return next(earlier, self.all[0])

    def take(
        self, threshold: float, row_scores: Mapping[str, Array], step: int | None = None
    ) -> None:
        """Take a decision after a step, by default the last that is done."""
        step = self.done if step is None else step
        self.all = [*self.all, Decision(self.all[-1].number + 1, step, threshold, row_scores)]

    def move_on(self, step: int) -> None:
        """Continue: the decisions of all steps up to this one have been taken.

        Decisions that hold for no batch that is still to be trained are forgotten.
        """
        with self._changed:
            self.done = step
            first = self._before(step + 1).number
            self.all = [decision for decision in self.all if decision.number >= first]
            self._changed.notify_all()

    def wait_for(self, batch: int) -> None:
        """Wait until another thread has taken the decision for a batch."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self.of(batch) is not None)
            if self._closed:
                raise SlipstreamError(f"The run has ended: batch {batch} will not be decided.")

    def close(self) -> None:
        """Take no more decisions: a thread that waits for one, or is about to, gets an error."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
