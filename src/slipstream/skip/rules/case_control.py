"""Local case-control: an input is kept with the chance that a cheap pilot is wrong about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from slipstream.data.inputs import Array
from slipstream.skip.accesses import Accesses
from slipstream.skip.bits import bits_of, set_bits
from slipstream.skip.context import Context
from slipstream.skip.pilot import common_rate, line_through, odds_of, sums_of, wrong
from slipstream.skip.rule import Drawn, Rule


class CaseControl(Rule):
    """Keeps an input with a chance in proportion to that of the pilot being wrong about it.

    The proportion is the one that skips the wanted share. Trained inputs have their log-odds
    corrected by the ratio of the two chances that an input like it is kept, with label 1 and with
    label 0, so predictions stay those of the whole data (Fithian and Hastie, 2014).
    """

    CHANCES: ClassVar[bool] = True
    LEAVES_COLD: ClassVar[bool] = False
    SEES: ClassVar[tuple[bool, bool]] = (True, True)
    GATHERED: ClassVar[int] = 8
    FROZEN: ClassVar[int] = 4
    FROZEN_AGAIN: ClassVar[int] = 8

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        reader = context.reader
        self._clicks = np.zeros((reader.rows, 2), dtype=np.uint32)
        self._counted = np.zeros(-(-len(reader.part) // 8), dtype=np.uint8)  # a bit for each input

    def see(self, trained: Accesses | None, skipped: Accesses | None) -> None:
        """Count accesses and clicks of all inputs, each once: the pilot is one of the whole data.

        An input that comes again tells nothing new, and counted once it can be taken out again.
        """
        for one in (trained, skipped):
            assert one is not None, "SEES says so"
            fresh = ~bits_of(self._counted, one.numbers)
            if not fresh.any():
                continue
            new = one if fresh.all() else self.context.reader.read(one.numbers[fresh])
            new.count_labels(self._clicks)
            set_bits(self._counted, new.numbers)

    def freeze(self) -> dict[str, Array]:
        """The log-odds of each row, and what takes an input out of them that comes again."""
        frozen = {"odds": odds_of(self._clicks, self.keys.smoothing)}
        if self.context.base.epochs > 1:
            prior = np.array([common_rate(self._clicks), self.keys.smoothing])
            frozen |= {"clicks": self._clicks.copy(), "counted": self._counted.copy()}
            frozen["prior"] = prior
        return frozen

    def fit(self, frozen: Mapping[str, Array], drawn: Drawn) -> dict[str, Array]:
        """The line through the sums of log-odds, by other inputs than those that they are of."""
        sums = sums_of(frozen, drawn.accesses)
        return {"line": line_through(sums, (drawn.labels > 0).astype(np.float64))}

    def score(self, frozen: Mapping[str, Array], drawn: Drawn) -> Array:
        """The proportion at which an input is just kept, upside down: the larger, the sooner."""
        positive, negative = wrong(frozen, drawn.accesses)
        chance = np.where(drawn.labels > 0, positive, negative)
        return np.asarray(chance / drawn.chance, dtype=np.float64)

    def logit_offset(
        self, frozen: Mapping[str, Array], threshold: float, drawn: Drawn
    ) -> Array | None:
        """The log of the ratio of the chances to be kept."""
        if not threshold > 0:
            return None
        kept = [np.minimum(1, one * (1 / threshold)) for one in wrong(frozen, drawn.accesses)]
        return np.asarray(np.log(kept[0] / kept[1]), dtype=np.float32)

    def state_dict(self) -> dict[str, Array]:
        """The counts, and of which inputs they are."""
        return {"clicks": self._clicks, "counted": self._counted}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Go on counting."""
        self._clicks[:] = state["clicks"]
        self._counted[:] = state["counted"]
