"""Plans that travel to a device together: what is done once for all of them costs each little."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple

from slipstream.embedding.device.blocks import Block
from slipstream.embedding.device.lanes import Mark
from slipstream.embedding.device.packing import Packing, pack_inputs
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
        block: Where, each in its page.
        plans: The plans, in the order of their steps.
        after: The step whose write-backs must have landed before their rows are read.
        packed: Done when their inputs are in their pages.
        there: When all of it is on the device.
        taken: How many of its plans were stepped through.
    """

    packing: Packing
    block: Block
    plans: list[Plan] = field(default_factory=list)
    after: int = 0
    packed: list[Future[None]] = field(default_factory=list)
    there: Mark = field(default_factory=Mark)
    taken: int = 0

    def pack_inputs(self, first: int, every: int) -> None:
        """Write the inputs of some plans into their pages."""
        for page in range(first, len(self.plans), every):
            pack_inputs(self.plans[page], self.block.arrays[page])


@dataclass
class Outcome:
    """What some steps gave, each in its page, on its way to the host."""

    block: Block
    plans: list[Plan] = field(default_factory=list)
    there: Mark = field(default_factory=Mark)


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
