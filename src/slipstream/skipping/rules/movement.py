"""Rows that move no more, judged rightly: by table, by how often they were touched, and anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from slipstream.data.inputs import Array
from slipstream.plan import Plan
from slipstream.skipping.accesses import Accesses
from slipstream.skipping.context import Context
from slipstream.skipping.counts import accesses_so_far
from slipstream.skipping.rule import ALL, Drawn, Rule
from slipstream.skipping.snapshots import Snapshot


class Movement(Rule):
    """Scores an input by the row of it that moves most.

    A row's movement is its largest change since the last decision, over the root of the times it
    was touched since (noise alone grows like that) and over the size of its table's rows. A row
    that was touched fewer than `skip.least_touches` times is not judged: its inputs are trained.
    """

    EXPLORES: ClassVar[float] = 0.02
    SEES: ClassVar[tuple[bool, bool]] = (True, False)
    NEEDS_HOT: ClassVar[bool] = True
    GATHERED: ClassVar[int] = 4
    FROZEN: ClassVar[int] = 4

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._snapshot = Snapshot(context, context.hot_rows.rows)
        self._touched = accesses_so_far(context)

    def see(self, trained: Accesses | None, skipped: Accesses | None) -> None:
        """Count the touches since the last snapshot."""
        del skipped
        if self._snapshot.taken and trained is not None:
            trained.count(self._touched)

    def due(self, plan: Plan, before: int) -> bool:
        """The first snapshot comes an interval before the first decision."""
        context = self.context
        if not self._snapshot.taken and plan.next_position >= context.first - context.every:
            self._snapshot.take()
            return False
        return super().due(plan, before) and self._snapshot.taken

    def freeze(self) -> dict[str, Array]:
        """How far each row has moved; infinitely where it is not judged."""
        rows = self._snapshot.rows
        touched = self._touched[rows]
        judged = self.live(rows) & (touched >= self.keys.least_touches)
        size = np.maximum(self._snapshot.spread() * np.sqrt(np.maximum(touched, 1)), 1e-30)
        relative = self._snapshot.moved(renew=True) / size
        moved = np.full(self.context.reader.rows, np.inf, dtype=np.float32)
        moved[rows] = np.where(judged, relative, np.inf)
        self._touched[:] = 0
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
        """The snapshot, and the touches since."""
        return {"touched": self._touched, **self._snapshot.state_dict()}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Go on with a snapshot."""
        self._touched[:] = state["touched"]
        self._snapshot.load_state_dict(state)
