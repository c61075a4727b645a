"""Plans that travel to a device together, so that the fixed costs are paid once for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from slipstream.arrays import Array
from slipstream.gpu.streams import StreamEvent
from slipstream.gpu.transfer.packing import Packing, inputs_of, needs
from slipstream.gpu.transfer.ring import Pages
from slipstream.tables.plan import Emitted, Plan

BUNDLES = 4
"""How many there is room for: one is trained, one waits, one is read, one is packed."""
SCORED = 5
"""Batches that there is room for where they are scored: three wait, one is sent, one is scored."""
_READ_AS = {"weight": "weights"}  # sections that have another name where inputs are read


class PlanRun(NamedTuple):
    """Plans in a row that were made together, or one that was not.

    `page` is the first of them, counted within their bundle. The write-backs of step `after` must
    have finished before their rows are read. `many` is for each group the data of all plans that
    were made together; None for one alone. Plan `at` of those is the first of these.
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


def needs_of_all(plans: Sequence[Plan], parts: Sequence[PlanRun]) -> dict[str, int]:
    """The room that is enough for each of several plans, which consist of these runs."""
    all_needs = []
    for run in parts:
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
        all_needs.append({name: int(np.diff(bounds).max()) for name, bounds in counted.items()})
    return {name: max(needed[name] for needed in all_needs) for name in all_needs[0]}


def runs(plans: Sequence[Plan]) -> list[PlanRun]:
    """Which plans in a row were made together."""
    parts: list[PlanRun] = []
    for page, plan in enumerate(plans):
        cold = plan.groups[0].cold if plan.groups else None
        if cold is None:
            parts.append(PlanRun(page, 1, plan.after))
            continue
        last = parts[-1] if parts else None
        # All groups of a plan were made with those of the same other plans.
        if last and last.many and last.many[0] is cold.many and last.at + last.length == cold.at:
            after = max(last.after, plan.after)
            parts[-1] = PlanRun(last.page, last.length + 1, after, last.many, last.at)
        else:
            many = tuple(group.cold.many for group in plan.groups if group.cold is not None)
            parts.append(PlanRun(page, 1, plan.after, many, cold.at))
    return parts


class QueuedPlan(NamedTuple):
    """A plan that is to be sent.

    `factor` multiplies all learning rates in its step, and `number` is how often dense weights have
    moved, with its step.
    """

    plan: Plan
    factor: float
    number: int


@dataclass
class PlanBundle:
    """Some plans on their way to the device, with the rows that come for them.

    The plans are in the order of their steps. `there` is the time when all of the bundle is on the
    device.
    """

    packing: Packing
    pages: Pages
    plans: list[Plan]
    runs: list[PlanRun]
    there: StreamEvent = field(default_factory=StreamEvent)

    def send_inputs(self) -> None:
        """Copy the inputs of all plans to their pages: inputs that were read at once by one copy.

        They are copied from where they were read. If that is page-locked, PyTorch reuses it only
        after the copy; other memory is copied now.
        """
        first = 0
        targets: list[Tensor] = []
        sources: list[Tensor] = []
        while first < len(self.plans):
            some, count = read_with(self.plans[first:])
            pages = slice(first, first + count)
            targets += [self.pages.inputs(name, pages) for name in some]
            sources += some.values()
            first += count
        # One call: between two calls, other threads would run first.
        torch._foreach_copy_(targets, sources, non_blocking=True)


def read_with(plans: Sequence[Plan]) -> tuple[dict[str, Tensor], int]:
    """The inputs of the first plans, as far as they lie side by side; how many plans these are."""
    plan = plans[0]
    inputs, together = inputs_of(plan), plan.read_block
    if together is None:
        return {name: values[None] for name, values in inputs.items()}, 1
    count = 1
    while count < len(plans) and _follows(plans[count - 1], plans[count]):
        count += 1
    some = slice(plan.place, plan.place + count)
    return {name: together.tensors[_READ_AS.get(name, name)][some] for name in inputs}, count


def _follows(plan: Plan, other: Plan) -> bool:
    """Whether the inputs of another plan were read with those of a plan, and lie behind them."""
    return other.read_block is plan.read_block and other.place == plan.place + 1


class Outcome(NamedTuple):
    """The results of the steps of a bundle, each in its page, on their way to the host."""

    pages: Pages
    bundle: PlanBundle
    there: StreamEvent


def bundles(coming: Iterable[QueuedPlan], most: int) -> Iterator[list[QueuedPlan]]:
    """Cut plans, which are in order, into bundles of at most `most` plans.

    The rows of a whole bundle are read before its first step. So a plan that waits for a write-back
    of an earlier step of its bundle begins another one. An oversized batch does not travel.
    """
    some: list[QueuedPlan] = []
    for queued in coming:
        apart = some and (queued.plan.after >= some[0].plan.step or len(some) == most)
        if some and (apart or queued.plan.oversized_batch):
            yield some
            some = []
        if not queued.plan.oversized_batch:
            some.append(queued)
    if some:
        yield some
