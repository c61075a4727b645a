"""After which steps rows are copied and decisions taken: known from the plans, ahead of the steps.

Code that plans several steps ahead uses a copy of a rule's calendar, so it knows which steps have
to end before others begin.
"""

from __future__ import annotations

import copy
from enum import IntEnum

from slipstream.skip.context import RunContext
from slipstream.skip.control import ControlSample
from slipstream.tables.plan import Plan


class Due(IntEnum):
    """What is due after a step."""

    NOTHING = 0
    SNAPSHOT = 1
    DECISION = 2


class Calendar:
    """Decisions at fixed positions.

    Args:
        context: The run.
    """

    def __init__(self, context: RunContext) -> None:
        self.context = context

    def after(self, plan: Plan, before: int) -> Due:
        """What is due after the step of a plan that began at a position; called for every step."""
        passes = self.context.passes(before, plan.next_position)
        return Due.DECISION if passes else Due.NOTHING


class SnapshotCalendar(Calendar):
    """The same, with a snapshot one interval before the first decision.

    Attributes:
        copied: Whether the rows have been copied.
    """

    copied = False

    def after(self, plan: Plan, before: int) -> Due:
        """A snapshot first, and then decisions."""
        if self.copied:
            return super().after(plan, before)
        self.copied = plan.next_position >= self.context.first - self.context.every
        return Due.SNAPSHOT if self.copied else Due.NOTHING


class DueSteps:
    """The steps of coming plans after which something is due.

    A thread calls it with plans, in the order of their steps, before another thread trains them.

    Args:
        calendar: The rule's calendar after the steps so far.
        control: Scores examples at the end of each interval.
    """

    def __init__(self, calendar: Calendar, control: ControlSample) -> None:
        self._calendar, self._control = copy.copy(calendar), control
        self._steps: set[int] = set()  # few in a run

    def __call__(self, plan: Plan, before: int) -> bool:
        """Whether something is due after the step of a plan that begins at a position."""
        due = self._calendar.after(plan, before) != Due.NOTHING
        due |= self._control.due(before, plan.next_position)
        if due:
            self._steps.add(plan.step)
        return due

    def includes(self, plan: Plan) -> bool:
        """Whether something is due after the step of a plan that it was called with."""
        return plan.step in self._steps
