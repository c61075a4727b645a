"""Numbered decisions: what was known when each was taken, and for which batches it holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slipstream.data.inputs import Array

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
    batch depends on the steps before it alone, never on how far ahead it is read.

    Args:
        lag: Batches from a decision to its effect.

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

    @property
    def last(self) -> Decision:
        """The one that was taken last, also if it does not hold yet."""
        return self.all[-1]

    def of(self, batch: int) -> Decision | None:
        """The decision that holds for a batch, by its number from 1; None while it is not known."""
        return self._before(batch) if batch - self.lag - 1 <= self.done else None

    def _before(self, batch: int) -> Decision:
        taken_by = batch - self.lag - 1
        return next((one for one in reversed(self.all) if one.step <= taken_by), self.all[0])

    def take(
        self, threshold: float, frozen: Mapping[str, Array], about: Mapping[str, Any] | None = None
    ) -> Decision:
        """Take a decision now; those that hold for no batch any more are forgotten."""
        made = Decision(self.last.number + 1, self.done, threshold, frozen, about or {})
        self.all.append(made)
        self.forget()
        return made

    def forget(self) -> None:
        """Forget the decisions that hold for no batch that is still to be trained."""
        first = self._before(self.done + 1).number
        self.all = [one for one in self.all if one.number >= first]
