"""What a metric is made of: predictions of some examples, and what is kept of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Protocol

import numpy as np

from slipstream.arrays import Array

Mode = Literal["exact", "bounded"]
Figures = Mapping[str, float | None]


@dataclass(frozen=True)
class Predictions:
    """The predictions of some examples; every array has one value for each."""

    logits: Array  # before the sigmoid, float32
    positive: Array  # whether the example is a click
    weights: Array  # how much it counts, float32

    @cached_property
    def probabilities(self) -> Array:
        """The predicted probability of a click, float64."""
        return np.where(self.logits < 0, self._small, 1.0) / (1 + self._small)

    @cached_property
    def losses(self) -> Array:
        """The negative logarithm of the probability of what happened, float64."""
        x = self.logits.astype(np.float64)
        return np.maximum(np.where(self.positive, -x, x), 0) + np.log1p(self._small)

    @cached_property
    def class_weights(self) -> tuple[float, float]:
        """The weight of the negative and of the positive examples."""
        return self.sum(~self.positive), self.sum(self.positive)

    def sum(self, values: Array) -> float:
        """The weighted sum of a value of each example."""
        return float((self.weights.astype(np.float64) * values).sum())

    @cached_property
    def _small(self) -> Array:
        return np.exp(-np.abs(self.logits.astype(np.float64)))  # never overflows


class Metric(Protocol):
    """Keeps what it needs of all predictions; adding to it makes a new one."""

    def in_mode(self, mode: Mode) -> Metric:
        """The same without predictions; `bounded` must not grow with them."""

    def plus(self, more: Predictions) -> Metric:
        """With more predictions."""

    def figures(self) -> Figures:
        """The results by name; None where there is none, as for no examples."""


@dataclass(frozen=True)
class SumMetric:
    """A metric that follows from sums over examples."""

    name: str  # of its figure
    sums: Callable[[Predictions], Sequence[float]]
    result: Callable[..., float | None]  # the figure, from these sums over all predictions
    total: tuple[float, ...] = ()  # the sums so far

    def in_mode(self, mode: Mode) -> SumMetric:  # noqa: ARG002 - sums are exact and small
        """The same without predictions."""
        return replace(self, total=())

    def plus(self, more: Predictions) -> SumMetric:
        """With more predictions."""
        sums = self.sums(more)
        before = self.total or (0.0,) * len(sums)
        return replace(self, total=tuple(a + b for a, b in zip(before, sums, strict=True)))

    def figures(self) -> Figures:
        """The result by name."""
        return {self.name: self.result(*self.total) if self.total else None}


def ratio(numerator: float, denominator: float) -> float | None:
    """Their quotient, or None where the denominator is 0."""
    return numerator / denominator if denominator else None


def mean(name: str, values: Callable[[Predictions], Array]) -> SumMetric:
    """The weighted mean of a value of each example."""
    return SumMetric(name, lambda p: (p.sum(values(p)), sum(p.class_weights)), ratio)
