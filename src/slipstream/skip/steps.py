"""The results of steps, many at a time.

On a GPU many steps are done in the time of one hand-over between Python threads, so their results
are worked on together. Sums are made step by step all the same: they do not depend on the groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np
import torch

from slipstream.arrays import Array
from slipstream.pipeline.engine import StepResult
from slipstream.tables.plan import Plan

_AT_ONCE = 1 << 18  # examples of a group: larger ones cost memory and save little time


class StepGroup:
    """Some steps one after the other, whose examples were skipped by the same decision.

    Args:
        steps: Their results.
    """

    def __init__(self, steps: Sequence[StepResult]) -> None:
        self.steps, self.decision, self.last = steps, steps[0].plan.decision, steps[-1]
        self._plans = [step.plan for step in steps]

    @cached_property
    def trained(self) -> Array:
        """The numbers of the examples that were trained."""
        return np.concatenate([plan.numbers[: plan.n_valid].numpy() for plan in self._plans])

    @cached_property
    def skipped(self) -> Array:
        """The numbers of the examples that were skipped."""
        pieces = (plan.skipped for plan in self._plans)
        none = np.empty(0, dtype=np.int64)
        return np.concatenate([none, *(numbers for numbers in pieces if numbers is not None)])

    @cached_property
    def labels(self) -> Array:
        """The labels of trained examples."""
        return torch.cat([plan.labels[: plan.n_valid] for plan in self._plans]).numpy()

    def losses(self) -> list[float]:
        """The sum of the losses of each step."""
        logits = [step.logits[: step.plan.n_valid].double() for step in self.steps]
        labels = self.labels > 0
        each = log_loss(torch.cat(logits).numpy(), labels)
        sizes = [plan.n_valid for plan in self._plans if plan.n_valid]
        starts = np.cumsum([0, *sizes[:-1]])
        return [float(loss) for loss in np.add.reduceat(each, starts)] if sizes else []


def log_loss(logits: Array, labels: Array) -> Array:
    """The loss of each example."""
    return np.asarray(np.logaddexp(0, np.where(labels > 0, -logits, logits)), dtype=np.float64)


def groups(
    steps: Sequence[StepResult], is_due: Callable[[Plan], bool], per_epoch: int
) -> Iterator[StepGroup]:
    """Groups of steps in which something is due after the last step at most.

    The steps of a group had the same decision and lie in the same epoch: no example comes twice.

    Args:
        steps: The results, in the order of the steps.
        is_due: Whether something may be due after the step of a plan.
        per_epoch: Examples of an epoch.
    """
    group: list[StepResult] = []
    kind: tuple[int, ...] = ()
    for step in steps:
        end, epoch = step.plan.next_position, max(1, per_epoch)
        kind_of_step = (step.plan.decision, step.before // epoch, (end - 1) // epoch)
        if group and (kind_of_step != kind or end - group[0].before > _AT_ONCE):
            yield StepGroup(group)
            group = []
        kind = kind_of_step
        group.append(step)
        if is_due(step.plan):
            yield StepGroup(group)
            group = []
    if group:
        yield StepGroup(group)
