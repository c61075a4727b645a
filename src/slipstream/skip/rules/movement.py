"""Rows that hardly move any more: judged by table, by how often they were accessed, and anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np

from slipstream.arrays import Array
from slipstream.config.kinds import Count, Portion, about
from slipstream.config.section import Settings
from slipstream.skip.accesses import Accesses
from slipstream.skip.candidates import Candidates
from slipstream.skip.context import RunContext
from slipstream.skip.hot import HotOptions
from slipstream.skip.rule import ALL, Due, RowScores, SkipRule
from slipstream.skip.snapshot import Snapshot
from slipstream.tables.plan import Plan


class FreezeOptions(HotOptions, frozen=True, kw_only=True):
    """The options of `freeze`."""

    min_touches: Annotated[
        Count, about("Touches since the last snapshot from which a row is judged")
    ] = 20


class MovementOptions(FreezeOptions, frozen=True, kw_only=True):
    """The options of `movement`."""

    h_c: Annotated[Count | None, about("Tables of an example that must be stale; null is all")] = (
        None
    )
    explore: Annotated[
        Portion, about("Share of the examples to be skipped that is trained all the same")
    ] = 0.02


class Movement(SkipRule):
    """Scores an example by its row that moves most.

    The movement of a row is its largest change since the last decision, over the root of its
    touches since then (noise alone grows like that) and over the size of its table's rows. A row
    with fewer than `min_touches` touches is not judged: its examples are trained.
    """

    Options: ClassVar[type[Settings]] = MovementOptions
    observes = "trained"
    skips_hot_first = True
    saved: ClassVar[tuple[str, ...]] = ("touches",)
    row_bytes = (4, 4)  # a count, and the movement

    def __init__(self, context: RunContext, options: FreezeOptions) -> None:
        super().__init__(context, options)
        self._snapshot = Snapshot(context, context.hot_rows.rows)
        self.touches = np.zeros(context.reader.rows, dtype=np.uint32)

    def observe(self, trained: Accesses, skipped: Accesses | None) -> None:
        """Count the touches since the last snapshot."""
        del skipped
        if self._snapshot.exists:
            trained.count(self.touches)

    def due(self, plan: Plan, before: int) -> Due:
        """The first snapshot comes an interval before the first decision."""
        first = max(1, self.context.first - self.context.every)
        if before < first <= plan.next_position:
            return Due.SNAPSHOT
        return super().due(plan, before)

    def snapshot(self) -> None:
        """Copy the rows for the first time."""
        self._snapshot.take()

    def row_scores(self) -> dict[str, Array]:
        """The movement of each row; infinite where it is not judged."""
        rows = self._snapshot.rows
        change, spread = self._snapshot.take()
        touches = self.touches[rows]
        judged = self.judged(rows) & (touches >= self.options.min_touches)
        size = np.maximum(spread * np.sqrt(np.maximum(touches, 1)), 1e-30)
        moved = np.full(self.context.reader.rows, np.inf, dtype=np.float32)
        moved[rows] = np.where(judged, change / size, np.inf)
        self.touches.fill(0)
        return {"moved": moved}

    def judged(self, rows: Array) -> Array:
        """Whether each row could move at all since the last snapshot."""
        return np.ones(len(rows), dtype=bool)

    def score(self, row_scores: RowScores, candidates: Candidates) -> Array:
        """The movement of the row that moves most, or of so many tables as `h_c` says."""
        if self.options.h_c is None:
            return candidates.accesses.largest(row_scores["moved"])
        return candidates.accesses.bounds(row_scores["moved"], ALL, self.options.h_c)

    def state_dict(self) -> dict[str, Array]:
        """The snapshot, and the touches since then."""
        return {**super().state_dict(), **self._snapshot.state_dict()}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Continue with a saved snapshot."""
        super().load_state_dict(state)
        self._snapshot.load_state_dict(state)
