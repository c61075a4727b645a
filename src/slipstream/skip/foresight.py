"""Tells ahead of the steps after which of them rows are looked at, or a decision is taken."""

from __future__ import annotations

from slipstream.skip.calendar import Calendar
from slipstream.skip.control import ControlSample
from slipstream.tables.plan import Plan


class Foresight:
    """For who steps through several plans at a time: a few steps must be the last of theirs.

    One thread asks it about plans, in the order of their steps, before another steps through them.

    Args:
        calendar: That of the rule, as it stands after the steps so far.
        control: Scores examples at the end of each interval.
    """

    def __init__(self, calendar: Calendar, control: ControlSample) -> None:
        self._calendar, self._control = calendar.ahead(), control
        self._foreseen: set[int] = set()  # of a run these are few

    def __call__(self, plan: Plan, before: int) -> bool:
        """Whether rows must be as the step of a plan leaves them, which begins at a position."""
        turns = self._calendar.turns
        begun = turns.begun
        # All of it is asked, since the calendar goes on with each plan.
        due = self._calendar.due(plan, before) or turns.begun > begun
        due |= self._control.due(before, plan.next_position)
        if due:
            self._foreseen.add(plan.step)
        return due

    def foreseen(self, plan: Plan) -> bool:
        """What was told of a plan before."""
        return plan.step in self._foreseen
