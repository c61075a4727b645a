"""When rows are looked at and decisions taken: known from the plans alone, ahead of their steps."""

from __future__ import annotations

import copy
from typing import TypeVar

from slipstream.skip.context import Context
from slipstream.tables.plan import Plan

C = TypeVar("C", bound="Calendar")


class Turns:
    """How passes over some rows go on: a slice of the rows after each step.

    Args:
        slices: Slices of a pass.

    Attributes:
        begun: Passes that have begun so far.
        compares: Whether the last pass had an earlier one to compare with.
    """

    def __init__(self, slices: int) -> None:
        self._of_a_pass, self._next = slices, slices
        self.begun, self.compares = 0, False

    @property
    def taken(self) -> bool:
        """Whether a pass has ever begun."""
        return self.begun > 0

    @property
    def under_way(self) -> bool:
        """Whether a pass has begun and not ended."""
        return self._next < self._of_a_pass

    def begin(self, *, renew: bool = True) -> bool:
        """Begin a pass with its first slice; one that is under way is ended before.

        Args:
            renew: Whether to compare with the rows as they are now from here on.

        Returns:
            Whether it has ended with that: few rows are one slice.
        """
        self.finish()
        self.compares = self.taken
        self._begin(renew)
        self.begun, self._next = self.begun + 1, 0
        return self.go_on()

    def _begin(self, renew: bool) -> None:
        """What is done to the rows before the first slice: here there are none."""

    def go_on(self) -> bool:
        """The next slice of a pass that is under way; whether it has ended with that."""
        if not self.under_way:
            return False
        self._next += 1
        return not self.under_way

    def finish(self) -> None:
        """End a pass that is under way, now."""
        while self.under_way:
            self.go_on()

    def alone(self) -> Turns:
        """The turns as they are now, without any rows."""
        made = Turns(self._of_a_pass)
        made._next, made.begun, made.compares = self._next, self.begun, self.compares
        return made


class Calendar:
    """Tells after each step whether a decision is due; here, at fixed positions.

    Whatever it tells follows from the plans, in the order of their steps. So a calendar of the same
    kind can tell it ahead of the steps, while another takes snapshots as they are done.

    Args:
        context: The run.
        turns: The passes over rows that it has begin and go on; None where no rows are looked at.
    """

    def __init__(self, context: Context, turns: Turns | None = None) -> None:
        self.context = context
        self.turns = Turns(0) if turns is None else turns

    def due(self, plan: Plan, before: int) -> bool:
        """Whether a decision is to be taken after a step, before which this was the position."""
        return self.context.passes(before, plan.next_position)

    def ahead(self: C) -> C:
        """One that goes on from here and looks at no rows."""
        made = copy.copy(self)
        made.turns = self.turns.alone()
        return made
