"""Rows that move no more, judged rightly: by table, by how often they were touched, and anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from slipstream.data.inputs import Array
from slipstream.skip.accesses import Accesses
from slipstream.skip.calendar import Calendar
from slipstream.skip.context import Context
from slipstream.skip.counts import accesses_so_far
from slipstream.skip.rule import ALL, Drawn, Rule
from slipstream.skip.snapshots import Snapshot
from slipstream.tables.plan import Plan


class MovementCalendar(Calendar):
    """A decision with the end of a snapshot that began when it was due.

    The first snapshot begins an interval before the first decision. One that is still under way
    when the next is due ends there.
    """

    def due(self, plan: Plan, before: int) -> bool:
        """Also has snapshots begin, and go on."""
        turns, context = self.turns, self.context
        ended = turns.go_on()
        if not turns.taken:
            if plan.next_position >= context.first - context.every:
                turns.begin()
            return False
        if super().due(plan, before):
            if turns.under_way:
                turns.finish()
                ended = True
            if not (ended and turns.compares):
                ended = turns.begin()
        return ended and turns.compares


class Movement(Rule):
    """Scores an input by the row of it that moves most.

    A row's movement is its largest change since the last decision, over the root of the times it
    was touched since (noise alone grows like that) and over the size of its table's rows. A row
    that was touched fewer than `skip.least_touches` times is not judged: its inputs are trained.
    """

    EXPLORES: ClassVar[float] = 0.02
    SEES: ClassVar[tuple[bool, bool]] = (True, False)
    NEEDS_HOT: ClassVar[bool] = True
    GATHERED: ClassVar[int] = 13
    FROZEN: ClassVar[int] = 4

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._snapshot = Snapshot(context, context.hot_rows.rows)
        self.calendar = MovementCalendar(context, self._snapshot)
        self._touched, self._at_snapshot = accesses_so_far(context), accesses_so_far(context)

    def see(self, trained: Accesses | None, skipped: Accesses | None) -> None:
        """Count the touches since the last snapshot."""
        del skipped
        if self._snapshot.taken and trained is not None:
            trained.count(self._touched)

    def due(self, plan: Plan, before: int) -> bool:
        """Whether a decision is due; with a snapshot that begins, touches are counted anew."""
        begun = self._snapshot.begun
        due = super().due(plan, before)
        if self._snapshot.begun > begun:
            self._touched, self._at_snapshot = self._at_snapshot, self._touched
            self._touched.fill(0)
        return due

    def freeze(self) -> dict[str, Array]:
        """How far each row has moved; infinitely where it is not judged."""
        rows = self._snapshot.rows
        touched = self._at_snapshot[rows]
        judged = self.live(rows) & (touched >= self.keys.least_touches)
        size = np.maximum(self._snapshot.spread() * np.sqrt(np.maximum(touched, 1)), 1e-30)
        relative = self._snapshot.moved() / size
        moved = np.full(self.context.reader.rows, np.inf, dtype=np.float32)
        moved[rows] = np.where(judged, relative, np.inf)
        return {"moved": moved}

    def live(self, rows: Array) -> Array:
        """Whether each row could move at all since the last snapshot."""
        return np.ones(len(rows), dtype=bool)

    def score(self, frozen: Mapping[str, Array], drawn: Drawn) -> Array:
        """The movement of the row that moves most, or of so many tables as `skip.h_c` says."""
        if self.keys.h_c is None:
            return drawn.accesses.largest(frozen["moved"])
        return drawn.accesses.enough(frozen["moved"], ALL, self.keys.h_c)

    def keeps(self, frozen: Mapping[str, Array]) -> Array | None:
        """The row that moves most keeps an input."""
        return frozen["moved"]

    def too_short(self) -> str:
        """Also where the only decision comes with the first batch, before anything has moved."""
        if self.context.repeats or self.context.first > self.context.batch_size:
            return super().too_short()
        return (
            "Nothing will be skipped: the first snapshot is taken after the first batch, and the "
            "only decision would come with it. Set skip.warmup higher, or leave skip.repeat out."
        )

    def state_dict(self) -> dict[str, Array]:
        """The snapshot, and the touches before it and since."""
        touched = {"touched": self._touched}
        if self._snapshot.under_way:
            touched["at_snapshot"] = self._at_snapshot
        return touched | self._snapshot.state_dict()

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Go on with a snapshot."""
        self._touched[:] = state["touched"]
        if "at_snapshot" in state:
            self._at_snapshot[:] = state["at_snapshot"]
        self._snapshot.load_state_dict(state)
