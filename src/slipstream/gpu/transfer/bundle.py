"""Plans that travel to a device together: what is done once for all of them costs each little."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from slipstream.arrays import Array
from slipstream.gpu.streams import Event
from slipstream.gpu.transfer.packing import Packing, inputs_of, needs
from slipstream.gpu.transfer.ring import Pages
from slipstream.tables.plan import Emitted, Plan

BUNDLES = 4
"""How many there is room for: one is stepped through, one waits, one is read, one is packed."""
SCORED = 5
"""Batches that there is room for where they are scored: three wait, one is sent, one is scored."""
_READ_AS = {"weight": "weights"}  # sections that have another name where inputs are read


class PlanRun(NamedTuple):
    """Plans in a row that were made together, or one that was not.

    Args:
        page: The first of them, counted within their stride.
        length: How many.
        after: The step whose write-backs must have landed before their rows are read.
        many: For each group what all plans say that were made together; None for one alone.
        at: Which of those is the first of these.
    """

    page: int
    length: int
    after: int
    many: tuple[Emitted, ...] | None = None
    at: int = 0

    @property
    def pages(self) -> slice:
        """Their pages, counted likewise."""
        return slice(self.page, self.page + self.length)

    def bounds(self, whole: Array) -> Array:
        """The part of the bounds of all plans that is theirs."""
        return whole[self.at : self.at + self.length + 1]


def needs_of_all(plans: Sequence[Plan], found: Sequence[PlanRun]) -> dict[str, int]:
    """The room that is enough for each of several plans, of which these were made together."""
    all_needs = []
    for run in found:
        if run.many is None:
            all_needs.append(needs(plans[run.page]))
            continue
        counted = {
            f"{number}.{name}": run.bounds(bounds)
            for number, many in enumerate(run.many)
            for name, bounds in (
                ("fill", many.fills), ("evict", many.evicts), ("cold", many.lookups)
            )
        }  # fmt: skip
        all_needs.append({name: int(np.diff(one).max()) for name, one in counted.items()})
    return {name: max(one[name] for one in all_needs) for name in all_needs[0]}


def runs(plans: Sequence[Plan]) -> list[PlanRun]:
    """Which plans in a row were made together."""
    found: list[PlanRun] = []
    for page, plan in enumerate(plans):
        cold = plan.groups[0].cold if plan.groups else None
        if cold is None:
            found.append(PlanRun(page, 1, plan.after))
            continue
        last = found[-1] if found else None
        # All groups of a plan were made with those of the same other plans.
        if last and last.many and last.many[0] is cold.many and last.at + last.length == cold.at:
            after = max(last.after, plan.after)
            found[-1] = PlanRun(last.page, last.length + 1, after, last.many, last.at)
        else:
            many = tuple(group.cold.many for group in plan.groups if group.cold is not None)
            found.append(PlanRun(page, 1, plan.after, many, cold.at))
    return found


class QueuedPlan(NamedTuple):
    """A plan that is to be sent.

    Args:
        plan: The plan.
        factor: Of all learning rates in its step.
        number: How often dense weights have moved, with its step.
    """

    plan: Plan
    factor: float
    number: int


@dataclass
class PlanBundle:
    """Some plans on their way to the device, with the rows that come for them.

    Args:
        packing: How they are packed.
        pages: Where, each in its page.
        plans: The plans, in the order of their steps.
        runs: Which of the plans were made together.
        there: When all of it is on the device.
    """

    packing: Packing
    pages: Pages
    plans: list[Plan]
    runs: list[PlanRun]
    there: Event = field(default_factory=Event)

    def send_inputs(self) -> None:
        """Copy the inputs of all plans to their pages: at once that were read at once.

        They go from where they were read. That is page-locked, and PyTorch gives it to nobody else
        before the copy is done; from other memory they are copied now.
        """
        first = 0
        targets: list[Tensor] = []
        sources: list[Tensor] = []
        while first < len(self.plans):
            some, count = read_with(self.plans[first:])
            mine = slice(first, first + count)
            targets += [self.pages.inputs(name, mine) for name in some]
            sources += some.values()
            first += count
        # One call: between two of them, other threads would go first.
        torch._foreach_copy_(targets, sources, non_blocking=True)


def read_with(plans: Sequence[Plan]) -> tuple[dict[str, Tensor], int]:
    """The inputs of the first plans, as far as they lie side by side, and of how many these are."""
    plan = plans[0]
    mine, together = inputs_of(plan), plan.read_block
    if together is None:
        return {name: one[None] for name, one in mine.items()}, 1
    count = 1
    while count < len(plans) and _follows(plans[count - 1], plans[count]):
        count += 1
    some = slice(plan.place, plan.place + count)
    return {name: together.tensors[_READ_AS.get(name, name)][some] for name in mine}, count


def _follows(plan: Plan, other: Plan) -> bool:
    """Whether the inputs of another plan were read with those of a plan, and lie behind them."""
    return other.read_block is plan.read_block and other.place == plan.place + 1


class Outcome(NamedTuple):
    """What the steps of a stride gave, each in its page, on its way to the host.

    Args:
        pages: Where it is.
        stride: Of which plans.
        there: When it is there.
    """

    pages: Pages
    bundle: PlanBundle
    there: Event


def bundles(coming: Iterable[QueuedPlan], most: int) -> Iterator[list[QueuedPlan]]:
    """Cut plans into what can travel together.

    Rows of a whole stride are read before its first step. So a plan that waits for what an earlier
    step of its stride writes back begins another one. A plan in the slow tier does not travel.

    Args:
        coming: The plans, in order.
        most: The most that travel together.
    """
    some: list[QueuedPlan] = []
    for one in coming:
        apart = some and (one.plan.after >= some[0].plan.step or len(some) == most)
        if some and (apart or one.plan.oversized_batch):
            yield some
            some = []
        if not one.plan.oversized_batch:
            some.append(one)
    if some:
        yield some
