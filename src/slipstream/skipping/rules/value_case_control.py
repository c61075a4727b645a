"""What is left to learn, times the chance that a cheap pilot is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from slipstream.data.inputs import Array
from slipstream.skipping.accesses import Accesses
from slipstream.skipping.context import Context
from slipstream.skipping.counts import accesses_so_far, left_to_learn
from slipstream.skipping.rules.case_control import CaseControl


class ValueCaseControl(CaseControl):
    """Case-control in which an input's chance also rises with what its rows have left to learn.

    With the root of it: the chance itself would be nearly one for some and nearly none for others.
    """

    LEAVES_COLD: ClassVar[bool] = True
    GATHERED: ClassVar[int] = 12
    FROZEN: ClassVar[int] = 8

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._counts = accesses_so_far(context)

    def see(self, trained: Accesses | None, skipped: Accesses | None) -> None:
        """Count clicks of all inputs, and accesses of those that were trained."""
        super().see(trained, skipped)
        assert trained is not None, "SEES says so"
        trained.count(self._counts)

    def freeze(self) -> dict[str, Array]:
        """The log-odds of each row, and what one more access teaches it."""
        return super().freeze() | {"left": left_to_learn(self._counts)}

    def weight(self, frozen: Mapping[str, Array], accesses: Accesses) -> Array:
        """The root of what is left to learn."""
        return np.sqrt(accesses.sums(frozen["left"]))

    def forget(self) -> None:
        """Clicks are counted from the beginning; what was learned counts for a tenth."""
        super().forget()
        self._counts //= 10

    def state_dict(self) -> dict[str, Array]:
        """Both counts."""
        return super().state_dict() | {"counts": self._counts}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Go on counting."""
        super().load_state_dict(state)
        self._counts[:] = state["counts"]
