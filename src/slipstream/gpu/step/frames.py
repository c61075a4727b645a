"""Frames: stretches of a batch of one of a few sizes, in which its parts are trained.

Sizes in a recording are fixed, and those of parts are not. So a part is trained with some inputs
next to it, which its span leaves out: their vectors are zero, and so are their gradients.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import NamedTuple

from slipstream.tables.plan import Plan

SIZES = 8
"""How many sizes a frame can have."""


class Frame(NamedTuple):
    """Inputs `first` to `end` of a batch, among them all of one part; `number` counts frames."""

    number: int
    first: int
    end: int

    @property
    def inputs(self) -> slice:
        """The inputs."""
        return slice(self.first, self.end)

    @property
    def span(self) -> slice:
        """The place of its two numbers in the result of `spans`."""
        return slice(2 * self.number, 2 * self.number + 2)

    @property
    def bounds(self) -> slice:
        """The places of the bounds of lists of these inputs."""
        return slice(self.first, self.end + 1)


Frames = tuple[Frame, ...]
"""The frames of a batch."""


@cache
def _in_one(capacity: int) -> Frames:
    """The only frame of a batch in one part, always the same object."""
    return (whole(capacity),)


def whole(capacity: int) -> Frame:
    """The frame of a batch in one part."""
    return Frame(0, 0, capacity)


def frames(plan: Plan) -> Frames:
    """The frame of each part that has inputs: the smallest that holds it, at its end of the batch.

    Together they cover the batch.
    """
    if not plan.parts:
        return _in_one(plan.capacity)
    smallest = -(-plan.capacity // SIZES)
    all_frames = []
    for number, (first, last) in enumerate(_parts(plan)):
        size = min(-(-(last - first) // smallest) * smallest, plan.capacity)
        begin = min(first, plan.capacity - size)
        all_frames.append(Frame(number, begin, begin + size))
    return tuple(all_frames)


def spans(plan: Plan) -> list[int]:
    """Where in each frame its part begins and ends: two numbers for each."""
    if not plan.parts:
        return [0, plan.capacity]
    pairs = zip(_parts(plan), frames(plan), strict=True)
    return [bound - frame.first for part, frame in pairs for bound in part]


def _parts(plan: Plan) -> list[tuple[int, int]]:
    bounds = pairwise((0, *plan.parts, plan.capacity))
    return [(first, last) for first, last in bounds if first < last]
