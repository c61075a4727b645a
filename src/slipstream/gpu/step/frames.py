"""Where the parts of a batch are trained: each in a frame that has one of a few sizes.

Sizes in a recording are fixed, and those of parts are not. So a part is trained with some inputs
beside its own, which its span leaves out: their vectors are zero, and so are their gradients.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import NamedTuple

from slipstream.tables.plan import Plan

SIZES = 8
"""How many sizes a frame can have."""


class Frame(NamedTuple):
    """Inputs in a row of a batch, all of one part among them.

    Args:
        number: Which frame of the batch.
        first: The first input.
        end: The one after the last.
    """

    number: int
    first: int
    end: int

    @property
    def inputs(self) -> slice:
        """The inputs."""
        return slice(self.first, self.end)

    @property
    def span(self) -> slice:
        """The place of its two numbers among those that `spans` gives."""
        return slice(2 * self.number, 2 * self.number + 2)

    @property
    def bounds(self) -> slice:
        """Where the lists of these inputs begin, and the end of the last."""
        return slice(self.first, self.end + 1)


Frames = tuple[Frame, ...]
"""The frames of a batch."""


@cache
def _in_one(capacity: int) -> Frames:
    """The only frame of a batch in one part, always the same one."""
    return (whole(capacity),)


def whole(capacity: int) -> Frame:
    """The frame of a batch in one part."""
    return Frame(0, 0, capacity)


def frames(plan: Plan) -> Frames:
    """The frame of each part that has inputs: the smallest that holds it, at its end of the batch.

    Every input is in one of them at least.
    """
    if not plan.parts:
        return _in_one(plan.capacity)
    smallest = -(-plan.capacity // SIZES)
    made = []
    for number, (first, last) in enumerate(_parts(plan)):
        size = min(-(-(last - first) // smallest) * smallest, plan.capacity)
        begin = min(first, plan.capacity - size)
        made.append(Frame(number, begin, begin + size))
    return tuple(made)


def spans(plan: Plan) -> list[int]:
    """Where in each frame its part begins, and the end of the part: two numbers for each."""
    if not plan.parts:
        return [0, plan.capacity]
    pairs = zip(_parts(plan), frames(plan), strict=True)
    return [bound - frame.first for part, frame in pairs for bound in part]


def _parts(plan: Plan) -> list[tuple[int, int]]:
    bounds = pairwise((0, *plan.parts, plan.capacity))
    return [(first, last) for first, last in bounds if first < last]
