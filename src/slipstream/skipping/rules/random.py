"""Any inputs, at random: the control of every other rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from slipstream.data.inputs import Array
from slipstream.skipping.rule import Drawn, Rule
from slipstream.skipping.search import Found


class Random(Rule):
    """Skips the wanted share of inputs, each with the same chance."""

    LEAVES_COLD: ClassVar[bool] = False

    def score(self, frozen: Mapping[str, Array], drawn: Drawn) -> Array:
        """The chance of each input."""
        del frozen
        return drawn.chance

    def search(self, frozen: Mapping[str, Array], drawn: Drawn, wanted: float) -> Found:
        """No search: chances are even."""
        del frozen
        return Found(wanted, wanted, wanted, len(drawn.chance))
