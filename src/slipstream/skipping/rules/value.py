"""Least left to learn: rows that were accessed often have little to gain from one more input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from slipstream.config import Skip
from slipstream.data.inputs import Array
from slipstream.skipping.accesses import Accesses, Reader
from slipstream.skipping.rule import Drawn, Rule, accesses_so_far


class Value(Rule):
    """Scores an input by the sum over its rows of 1 / (trained accesses so far + 1).

    What one more example adds to the estimate of something seen n times falls like 1 / n.
    """

    EXPLORES: ClassVar[float] = 0.02

    def __init__(self, keys: Skip, reader: Reader) -> None:
        super().__init__(keys, reader)
        self._counts = accesses_so_far(reader)

    def see(self, trained: Accesses, skipped: Accesses) -> None:
        """Count the accesses that were trained; what was skipped has taught nothing."""
        del skipped
        trained.count(self._counts)

    def freeze(self) -> dict[str, Array]:
        """What one more access teaches each row."""
        return {"left": 1 / (self._counts.astype(np.float32) + 1)}

    def score(self, frozen: Mapping[str, Array], drawn: Drawn) -> Array:
        """What is left to learn from each input."""
        return drawn.accesses.sums(frozen["left"])

    def state_dict(self) -> dict[str, Array]:
        """The counts."""
        return {"counts": self._counts}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Go on counting."""
        self._counts[:] = state["counts"]
