"""What steps have said of their batches: several steps are looked at at once.

A GPU makes many steps in the time that Python's threads need to hand over to each other a few
times, so whatever is done for each of them is done for all that come together. Sums are made step
by step all the same: they do not depend on how many are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from slipstream.compiled import compiled
from slipstream.data.inputs import Array
from slipstream.tables.plan import Plan

_AT_ONCE = 1 << 18  # inputs of a group; beyond that less is won than memory is taken


class Heard(NamedTuple):
    """What a step has said.

    Args:
        plan: Of the step.
        before: The position before it.
        logits: The predictions of its inputs, before anything moved.
    """

    plan: Plan
    before: int
    logits: Tensor


class Counts(NamedTuple):
    """The inputs that a step has trained and skipped, and the positives among each."""

    trained: int
    trained_positive: int
    skipped: int
    skipped_positive: int


class Group:
    """Some steps one after the other, whose inputs were skipped by the same decision.

    Args:
        steps: What they have said.
        labels_of: The labels of the inputs of some numbers.
    """

    def __init__(self, steps: Sequence[Heard], labels_of: Callable[[Array], Array]) -> None:
        self.steps, self._labels_of = steps, labels_of
        self.decision = steps[0].plan.decision
        self.last = steps[-1]

    @cached_property
    def trained(self) -> Array:
        """The numbers of the inputs that were trained."""
        return np.concatenate([one.plan.numbers[: one.plan.n_valid].numpy() for one in self.steps])

    @cached_property
    def skipped(self) -> Array:
        """The numbers of those that were skipped."""
        none = np.empty(0, dtype=np.int64)
        some = (one.plan.skipped for one in self.steps)
        return np.concatenate([none, *(one for one in some if one is not None)])

    @cached_property
    def labels(self) -> Array:
        """The labels of trained inputs."""
        return torch.cat([one.plan.labels[: one.plan.n_valid] for one in self.steps]).numpy()

    @cached_property
    def skipped_labels(self) -> Array:
        """Those of skipped ones."""
        return self._labels_of(self.skipped)

    @cached_property
    def logits(self) -> Array:
        """The predictions of trained inputs."""
        return torch.cat([one.logits[: one.plan.n_valid] for one in self.steps]).numpy()

    @cached_property
    def ends(self) -> Array:
        """Where the trained inputs of each step end."""
        return np.cumsum([one.plan.n_valid for one in self.steps])

    @cached_property
    def skipped_ends(self) -> Array:
        """Where the skipped ones of each end."""
        some = (one.plan.skipped for one in self.steps)
        return np.cumsum([0 if one is None else len(one) for one in some])

    @cached_property
    def counts(self) -> list[Counts]:
        """Those of each step."""
        columns = []
        for labels, ends in ((self.labels, self.ends), (self.skipped_labels, self.skipped_ends)):
            columns.append(np.diff(ends, prepend=0).tolist())
            columns.append([round(one) for one in sums_by_step(labels > 0, ends)])
        return [Counts(*each) for each in zip(*columns, strict=True)]


def groups(
    heard: Sequence[Heard],
    ends: Callable[[Plan], bool],
    per_epoch: int,
    labels_of: Callable[[Array], Array],
) -> Iterator[Group]:
    """Steps that can be looked at at once: nothing is due but after the last of them.

    Those of a group had the same decision, and lie in the same epoch: no input comes twice. They
    are not more than is worth reading at once.

    Args:
        heard: What steps have said, in their order.
        ends: Says of the plan of a step whether something may be due after it.
        per_epoch: Inputs of an epoch.
        labels_of: The labels of the inputs of some numbers.
    """
    some: list[Heard] = []
    kind: tuple[int, ...] = ()
    for one in heard:
        end, epoch = one.plan.next_position, max(1, per_epoch)
        this = (one.plan.decision, one.before // epoch, (end - 1) // epoch)
        if some and (this != kind or end - some[0].before > _AT_ONCE):
            yield Group(some, labels_of)
            some = []
        kind = this
        some.append(one)
        if ends(one.plan):
            yield Group(some, labels_of)
            some = []
    if some:
        yield Group(some, labels_of)


@compiled
def _sums(values: Array, ends: Array, out: Array) -> None:
    first = 0
    for step in range(len(ends)):
        total = 0.0
        for k in range(first, ends[step]):
            total += values[k]
        out[step], first = total, ends[step]


def sums_by_step(values: Array, ends: Array) -> list[float]:
    """The sum of the values of each step.

    Example:
        >>> sums_by_step(np.array([1.0, 2.0, 3.0]), np.array([2, 2, 3]))
        [3.0, 0.0, 3.0]
    """
    out = np.empty(len(ends), dtype=np.float64)
    _sums(values, ends, out)
    return [float(one) for one in out]
