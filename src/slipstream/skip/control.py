"""The control sample: the mean loss of a few skipped examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from slipstream.arrays import Array
from slipstream.skip.chance import uniform

SIZE = 256
"""Skipped examples that are scored at the end of each interval."""


class ControlSample:
    """Scores a few of the skipped examples at the end of each interval, and trains none of them.

    The report shows their mean loss beside that of trained examples. Nothing else follows from it.

    Args:
        seed: The seed of the run: each interval scores those whose hash is smallest.
        every: Positions of an interval.
        logits_of: The logits of examples as the model is now, and their labels.
    """

    def __init__(
        self, seed: int, every: int, logits_of: Callable[[Array], tuple[Array, Array]]
    ) -> None:
        self._seed, self._every, self._logits_of = seed, every, logits_of
        self._scored, self._loss = 0, 0.0
        self._sample = np.empty(0, dtype=np.int64)

    def add(self, skipped: Array) -> None:
        """Draw from examples that were skipped."""
        numbers = np.concatenate([self._sample, skipped])
        order = np.argsort(uniform(self._seed, "control", numbers), kind="stable")
        self._sample = numbers[order[:SIZE]]

    def due(self, before: int, position: int) -> bool:
        """Whether an interval ends between two positions."""
        return position // self._every != before // self._every

    def score(self) -> None:
        """Score the sample of an interval that has ended."""
        if len(self._sample):
            self._loss += float(log_loss(*self._logits_of(self._sample)).sum())
            self._scored += len(self._sample)
            self._sample = self._sample[:0]

    @property
    def loss(self) -> float | None:
        """The mean loss of the examples scored so far; None without any."""
        return self._loss / self._scored if self._scored else None

    def state_dict(self) -> dict[str, Any]:
        """The state, as JSON."""
        return {"scored": self._scored, "loss": self._loss, "sample": self._sample.tolist()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self._scored, self._loss = state["scored"], state["loss"]
        self._sample = np.array(state["sample"], dtype=np.int64)


def log_loss(logits: Array, labels: Array) -> Array:
    """The loss of each example."""
    return np.asarray(np.logaddexp(0, np.where(labels > 0, -logits, logits)))
