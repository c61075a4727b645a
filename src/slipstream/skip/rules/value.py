"""Least left to learn: rows that were accessed often have little to gain from one more input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from slipstream.data.inputs import Array
from slipstream.skip.accesses import Accesses
from slipstream.skip.context import Context
from slipstream.skip.counts import accesses_so_far, left_to_learn
from slipstream.skip.rule import Drawn, Rule


class Value(Rule):
    """Scores an input by the sum over its rows of 1 / (trained accesses so far + 1).

    What one more example adds to the estimate of something seen n times falls like 1 / n.
    """

    EXPLORES: ClassVar[float] = 0.02
    SEES: ClassVar[tuple[bool, bool]] = (True, False)
    GATHERED: ClassVar[int] = 4
    FROZEN: ClassVar[int] = 4

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._counts = accesses_so_far(context)

    def see(self, trained: Accesses | None, skipped: Accesses | None) -> None:
        """Count the accesses that were trained; what was skipped has taught nothing."""
        del skipped
        assert trained is not None, "SEES says so"
        trained.count(self._counts)

    def freeze(self) -> dict[str, Array]:
        """What one more access teaches each row."""
        return {"left": left_to_learn(self._counts)}

    def score(self, frozen: Mapping[str, Array], drawn: Drawn) -> Array:
        """What is left to learn from each input."""
        return drawn.accesses.sums(frozen["left"])

    def keeps(self, frozen: Mapping[str, Array]) -> Array | None:
        """The row with most to learn keeps an input."""
        return frozen["left"]

    def state_dict(self) -> dict[str, Array]:
        """The counts."""
        return {"counts": self._counts}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Go on counting."""
        self._counts[:] = state["counts"]
