"""Rows that move no more are frozen; their inputs still train everything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from slipstream.data.inputs import Array
from slipstream.skip.context import Context
from slipstream.skip.rule import Drawn
from slipstream.skip.rules.movement import Movement
from slipstream.skip.search import Found, quantile


class Freeze(Movement):
    """Trains every input, and leaves the wanted share of row updates out: what moves least.

    A frozen row cannot move, and would be judged stale for ever: it is judged only if it was live
    since the last snapshot, so that each is let go after an interval.
    """

    EXPLORES: ClassVar[float] = 0.0
    MAKES_UP: ClassVar[bool] = False
    FREEZES: ClassVar[bool] = True
    LEAVES_COLD: ClassVar[bool] = False
    GATHERED: ClassVar[int] = 14
    FROZEN: ClassVar[int] = 4

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._still = np.zeros(context.reader.rows, dtype=bool)

    def live(self, rows: Array) -> Array:
        """Whether each row was not frozen by the decision before."""
        return ~self._still[rows]

    def score(self, frozen: Mapping[str, Array], drawn: Drawn) -> Array:
        """No input is skipped."""
        del frozen
        return np.full(len(drawn.accesses), np.inf)

    def search(self, frozen: Mapping[str, Array], drawn: Drawn, wanted: float) -> Found:
        """The movement below which the wanted share of row updates lies."""
        found = quantile(frozen["moved"][drawn.accesses.rows()], wanted)
        self._still = frozen["moved"] < found.threshold
        return found

    def still(self, frozen: Mapping[str, Array], threshold: float) -> Array | None:
        """The rows that move less than the threshold."""
        return np.asarray(frozen["moved"] < threshold)

    def state_dict(self) -> dict[str, Array]:
        """The snapshot, the touches since, and what is frozen."""
        return super().state_dict() | {"still": self._still}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Go on with a snapshot."""
        super().load_state_dict(state)
        self._still[:] = state["still"]
