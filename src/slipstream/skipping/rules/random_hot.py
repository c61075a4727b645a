"""Inputs of which all rows are hot, at random: the control of rules that skip no others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from slipstream.data.inputs import Array
from slipstream.skipping.rule import Drawn, Rule


class RandomHot(Rule):
    """Skips the wanted share of all inputs, from the hot ones, each with the same chance."""

    NEEDS_HOT: ClassVar[bool] = True

    def score(self, frozen: Mapping[str, Array], drawn: Drawn) -> Array:
        """The chance of each hot input; cold ones are never skipped."""
        del frozen
        return np.where(self.context.hot_rows.of(drawn.accesses), drawn.chance, np.inf)

    def keeps(self, frozen: Mapping[str, Array]) -> Array | None:
        """Any row that is not hot keeps an input."""
        del frozen
        return np.where(self.context.hot_rows.mask, -np.inf, 1.0).astype(np.float32)
