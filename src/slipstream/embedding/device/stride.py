"""Plans that travel to a device together: what is done once for all of them costs each little."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple

from slipstream.embedding.device.lanes import Mark
from slipstream.embedding.device.packing import Packing, pack_inputs
from slipstream.embedding.device.ring import Pages
from slipstream.plan import Plan


class Coming(NamedTuple):
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
class Stride:
    """Some plans on their way to the device, with the rows that come for them.

    Args:
        packing: How they are packed.
        pages: Where, each in its page.
        plans: The plans, in the order of their steps.
        packed: Done when their inputs are in their pages.
        there: When all of it is on the device.
    """

    packing: Packing
    pages: Pages
    plans: list[Plan]
    packed: list[Future[None]] = field(default_factory=list)
    there: Mark = field(default_factory=Mark)

    @property
    def after(self) -> int:
        """The step whose write-backs must have landed before their rows are read."""
        return max(plan.after for plan in self.plans)

    def pack_inputs(self, first: int, every: int) -> None:
        """Write the inputs of some plans into their pages."""
        arrays = self.pages.arrays
        for page in range(first, len(self.plans), every):
            pack_inputs(self.plans[page], arrays[page])


class Outcome(NamedTuple):
    """What some steps gave, each in its page, on its way to the host.

    Args:
        pages: Where it is.
        plans: Their plans.
        there: When it is there.
    """

    pages: Pages
    plans: list[Plan]
    there: Mark


def strides(coming: Iterable[Coming], most: int) -> Iterator[list[Coming]]:
    """Cut plans into what can travel together.

    Rows of a whole stride are read before its first step. So a plan that waits for what an earlier
    step of its stride writes back begins another one. A plan in the slow tier does not travel.

    Args:
        coming: The plans, in order.
        most: The most that travel together.
    """
    some: list[Coming] = []
    for one in coming:
        apart = some and (one.plan.after >= some[0].plan.step or len(some) == most)
        if some and (apart or one.plan.aside):
            yield some
            some = []
        if not one.plan.aside:
            some.append(one)
    if some:
        yield some
