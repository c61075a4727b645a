"""A few hot rows whose movement every run with skipping reports."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from slipstream.data.inputs import Array
from slipstream.skipping.context import Context
from slipstream.skipping.snapshots import Snapshot

ROWS = 10


class Watched:
    """Ten of the most accessed rows: the first ones of the largest tables.

    Args:
        context: The run.
    """

    def __init__(self, context: Context) -> None:
        starts = context.reader.starts
        sizes = np.diff(starts)
        tables = np.argsort(-sizes, kind="stable")
        picked = [
            int(starts[table]) + rank
            for rank in range(ROWS)
            for table in tables.tolist()
            if rank < sizes[table]
        ]
        self._snapshot = Snapshot(context, np.sort(picked[:ROWS]))

    @property
    def begun(self) -> bool:
        """Whether they are watched already."""
        return self._snapshot.taken

    def begin(self) -> None:
        """Begin to watch; nothing, where that has begun."""
        if not self.begun:
            self._snapshot.begin()

    def moved(self) -> list[float]:
        """The largest change of each since it was last asked for, or since the beginning."""
        self._snapshot.begin()
        self._snapshot.finish()
        return [float(one) for one in self._snapshot.moved()]

    def state_dict(self) -> dict[str, Array]:
        """The rows as they were when last asked for."""
        return self._snapshot.state_dict()

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Go on from another one."""
        self._snapshot.load_state_dict(state)
