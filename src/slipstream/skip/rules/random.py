"""Examples at random: the control of every other rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from slipstream.config import Skip
from slipstream.data.inputs import Array
from slipstream.skip.rule import Drawn, Rule
from slipstream.skip.search import Found


class Random(Rule):
    """Skips the wanted share of examples, each with the same chance.

    With `skip.hot_only` it skips hot examples only: the control of rules that skip no others.
    """

    LEAVES_COLD: ClassVar[bool] = False

    @classmethod
    def needs_hot(cls, keys: Skip) -> bool:
        """Only hot examples are skipped if the option says so."""
        return keys.hot_only

    def score(self, frozen: Mapping[str, Array], drawn: Drawn) -> Array:
        """The chance of each example; cold ones are never skipped with `hot_only`."""
        del frozen
        if not self.keys.hot_only:
            return drawn.chance
        return np.where(self.context.hot_rows.of(drawn.accesses), drawn.chance, np.inf)

    def search(self, frozen: Mapping[str, Array], drawn: Drawn, wanted: float) -> Found:
        """Without `hot_only` chances are even, and nothing is searched."""
        if self.keys.hot_only:
            return super().search(frozen, drawn, wanted)
        return Found(wanted, wanted, wanted, len(drawn.chance))

    def keeps(self, frozen: Mapping[str, Array]) -> Array | None:
        """With `hot_only` any row that is not hot keeps an example."""
        del frozen
        if not self.keys.hot_only:
            return None
        return np.where(self.context.hot_rows.mask, -np.inf, 1.0).astype(np.float32)
