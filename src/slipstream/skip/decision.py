"""Numbered decisions: what was known when each was taken, and for which batches it holds."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slipstream.data.inputs import Array
from slipstream.errors import SlipstreamError

TRAIN_ALL = -np.inf


@dataclass(frozen=True)
class Decision:
    """What decides about the inputs of some batches.

    Args:
        number: Decisions are counted from 0, which trains all.
        step: Steps that were done when it was taken.
        threshold: Inputs whose score is below it are skipped.
        frozen: What the rule knew then, by name: whatever it learns later changes nothing.
        about: What a report says of it.
    """

    number: int = 0
    step: int = -1
    threshold: float = TRAIN_ALL
    frozen: Mapping[str, Array] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def trains_all(self) -> bool:
        """Whether nothing is skipped."""
        return self.threshold == TRAIN_ALL


class Decisions:
    """The decisions that still hold for a batch to come, and how far training is.

    A decision that was taken after step s holds from batch s + lag + 1 on. So what holds for a
    batch depends on the steps before it alone, never on how far ahead it is read. One thread may
    ask what holds while another takes decisions.

    Args:
        lag: Batches from a decision to its effect.

    Attributes:
        done: Steps after which all is decided that follows from them. While another thread waits
            it is changed by `move_on` alone.

    Example:
        >>> decisions = Decisions(lag=2)
        >>> decisions.done = 5
        >>> taken = decisions.take(threshold=0.3, frozen={})
        >>> [decisions.of(batch).number for batch in (6, 7, 8)], decisions.of(9)
        ([0, 0, 1], None)
    """

    def __init__(self, lag: int) -> None:
        self.lag = lag
        self.done = 0
        self.all = [Decision()]
        self._moved_on = threading.Condition()
        self._closed = False

    @property
    def last(self) -> Decision:
        """The one that was taken last, also if it does not hold yet."""
        return self.all[-1]

    def of(self, batch: int) -> Decision | None:
        """The decision that holds for a batch, by its number from 1; None while it is not known."""
        return self._before(batch) if batch - self.lag - 1 <= self.done else None

    def wait_for(self, batch: int) -> None:
        """Wait until it is known which decision holds for a batch; another thread takes them."""
        with self._moved_on:
            self._moved_on.wait_for(lambda: self._closed or self.of(batch) is not None)
            if self._closed:
                raise SlipstreamError(f"Which inputs batch {batch} has is not decided any more.")

    def close(self) -> None:
        """Take no more decisions: whoever waits for one, or is about to, gets an error."""
        with self._moved_on:
            self._closed = True
            self._moved_on.notify_all()

    def _before(self, batch: int) -> Decision:
        taken_by = batch - self.lag - 1
        return next((one for one in reversed(self.all) if one.step <= taken_by), self.all[0])

    def take(
        self,
        threshold: float,
        frozen: Mapping[str, Array],
        about: Mapping[str, Any] | None = None,
        *,
        step: int | None = None,
    ) -> Decision:
        """Take a decision after a step, by default the last that is done."""
        step = self.done if step is None else step
        made = Decision(self.last.number + 1, step, threshold, frozen, about or {})
        self.all = [*self.all, made]
        return made

    def move_on(self, step: int) -> None:
        """All is decided that follows from the steps up to this one.

        Decisions that hold for no batch that is still to be trained are forgotten.
        """
        with self._moved_on:
            self.done = step
            first = self._before(step + 1).number
            self.all = [one for one in self.all if one.number >= first]
            self._moved_on.notify_all()
