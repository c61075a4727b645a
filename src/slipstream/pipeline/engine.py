"""The step: takes the plan of a batch, predicts, and updates its rows and the dense part."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from slipstream.data.batch import Batch
from slipstream.pipeline.dense import DensePart
from slipstream.tables.plan import Plan, Planner, lookup_of
from slipstream.tables.spec import Embedded
from slipstream.tables.tables import Embeddings

Loss = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]
"""The loss of a batch from its logits, labels, weights, and what is added to logits."""
PREPARED = 3
"""Plans whose rows are fetched ahead; on a GPU, so many groups of plans."""
Scored = tuple[Batch, Tensor]
"""A batch and its logits."""


class StepResult(NamedTuple):
    """The result of one step.

    Args:
        loss: The loss of its batch.
        logits: The logits of its examples, computed before the update.
        plan: The plan of the batch.
        unplanned_lookups: The distinct rows that it needed, if only the device could count them.
        before: The position before the step; the training loop fills it in.
    """

    loss: float
    logits: Tensor
    plan: Plan
    unplanned_lookups: int = 0
    before: int = 0


class Engine:
    """Embedding tables and a dense part that are trained together."""

    returns_results_first = True
    """Whether results are returned before the update is applied."""

    def __init__(self, tables: Embeddings, dense: DensePart) -> None:
        self.tables = tables
        self.dense = dense
        self._factors: dict[int, float] = {}

    def prepare(self, plan: Plan, factor: float = 1.0) -> None:
        """Begin to fetch the rows of a coming step; `factor` multiplies its learning rates."""
        self._factors[plan.step] = factor
        self.tables.prepare(plan)

    def prepare_all(self, plans: Sequence[tuple[Plan, float]]) -> None:
        """Prepare several plans, each with its factor."""
        for plan, factor in plans:
            self.prepare(plan, factor)

    def stop_preparing(self) -> None:
        """Prepare no more plans; a thread that waits to do so continues."""

    def step(self, plan: Plan) -> Iterator[StepResult]:
        """Make the step of a prepared plan, and return results of steps that have finished.

        The result of this step may come only with a later step or with `remaining_results`. The
        update runs when the caller requests the next result, so it must exhaust the iterator.
        """
        yield self.forward(plan)
        self.update(plan, self._factors.pop(plan.step))

    def step_all(self, plans: Sequence[Plan]) -> Iterator[StepResult]:
        """Make the steps of plans that were prepared together, as if one by one."""
        for plan in plans:
            yield from self.step(plan)

    def remaining_results(self, outstanding: int = 0) -> Iterator[StepResult]:
        """Wait for all but the last `outstanding` steps, and return results; a CPU never waits."""
        del outstanding
        yield from ()

    def forward(self, plan: Plan) -> StepResult:
        """Look up, predict, and compute the gradients of a batch, without an update.

        A batch in several parts begins with the first while the rows of the others arrive.
        """
        bounds = (0, *plan.parts, plan.capacity)
        self._embedded: list[Embedded] = []
        losses, logits = [], []
        for number, (first, last) in enumerate(pairwise(bounds)):
            if number == min(1, len(plan.parts)):
                self.tables.arrive(plan)
            groups = lookup_of(plan.groups, first, last) if plan.parts else plan.groups
            self._embedded.append(self.tables.lookup(groups))
            logits.append(self.dense.logits(plan.dense[first:last], self._embedded[-1]))
            loss = loss_of(logits[-1], plan, first, last)
            loss.backward()
            losses.append(float(loss.detach()))
        return StepResult(sum(losses), torch.cat([part.detach().cpu() for part in logits]), plan)

    def update(self, plan: Plan, factor: float = 1.0) -> None:
        """Update rows and dense weights with the gradients of `forward`."""
        self.tables.update(plan.groups, *self._embedded, step=plan.step, factor=factor)
        self.tables.leave(plan)
        self.dense.step(factor)
        del self._embedded

    def skip_step(self, plan: Plan) -> None:
        """Move the rows of a plan without examples; nothing is trained."""
        self._factors.pop(plan.step, None)
        self.tables.arrive(plan)
        self.tables.leave(plan)

    def score(self, batch: Batch, planner: Planner) -> Tensor:
        """The logits of a batch; the planner finds its rows in the slow tier, where all are."""
        (plan,) = planner.plans([batch])
        return self.predict(plan)

    def scores(
        self, batches: Iterable[Batch], planner: Planner, *, few: bool = False
    ) -> Generator[Scored, None, None]:
        """Each batch with its logits, in order; all steps must have returned their results.

        Args:
            batches: The batches.
            planner: Finds their rows in the slow store.
            few: Whether they need few rows, so that writing back only these is less work.
        """
        del few  # on a CPU it is never less
        self.tables.flush()
        for batch in batches:
            yield batch, self.score(batch, planner)

    def predict(self, plan: Plan) -> Tensor:
        """The logits of a batch; nothing is kept for training."""
        with torch.no_grad():
            embedded = self.tables.lookup(plan.groups, gradients=False)
            return self.dense.logits(plan.dense, embedded, train=False).cpu()


def prefetch_rows(
    engine: Engine, plans: Iterator[Plan], factor: Callable[[Plan], float]
) -> Iterator[Plan]:
    """The plans, each after the engine began to fetch the rows of it and of the next few."""
    prepared: deque[Plan] = deque()
    while True:
        while len(prepared) < PREPARED and (plan := next(plans, None)) is not None:
            engine.prepare(plan, factor(plan))
            prepared.append(plan)
        if not prepared:
            return
        yield prepared.popleft()


def loss_of(logits: Tensor, plan: Plan, first: int = 0, last: int | None = None) -> Tensor:
    """The weighted sum of the logloss of examples `first` to `last`, over the batch's capacity."""
    part = slice(first, last)
    offset = None if plan.logit_offset is None else plan.logit_offset[part].to(logits)
    labels, weight = plan.labels[part].to(logits), plan.weight[part].to(logits)
    return weighted_loss(logits, labels, weight, offset, plan.capacity)


def weighted_loss(
    logits: Tensor,
    labels: Tensor,
    weight: Tensor,
    offset: Tensor | None,
    capacity: int | None = None,
) -> Tensor:
    """The weighted sum of the logloss, divided by `capacity` (default: the number of examples)."""
    if offset is not None:
        logits = logits + offset
    losses = binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return (losses * weight).sum() / (capacity or len(labels))
