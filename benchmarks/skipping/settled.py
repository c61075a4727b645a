"""Whether a loss is known well enough, how many seeds that takes, and what to call it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import NamedTuple

from slipstream.analyze.report.statistics import interval

FEWEST = 3
"""Two seeds are often alike by chance, and would settle anything."""
TENTH = 0.1
SMALL = 0.0002
"""An AUC: what is surely less is as good as nothing, and its own spread says no more."""
_STUDENT = 2.2  # of about ten seeds

LEGEND = (
    "AUC lost is full training's less the rule's, the mean over paired seeds; ± its 95 % interval "
    f"(Student's). Settled: `yes`, its standard error is at most a tenth of it, with {FEWEST} "
    f"seeds or more; `under X`, it is not, but the interval lies within X of nothing, and X is at "
    f"most {SMALL:g}: no effect larger than that; `NO`, neither holds, so take the figure for no "
    "more than its interval says (in brackets about how many seeds would do, if spread and mean "
    "stay). "
    "of random: the part of that control's loss at the same share, with its 95 % interval. Time "
    "saved: of the time that full training takes of a core, the median over seeds."
)


class Standing(NamedTuple):
    """How well a loss is known.

    Args:
        narrow: Its standard error is at most a tenth of it.
        under: Where its interval lies within `SMALL` of nothing: how far from it at most.
        needed: About how many seeds settle it, if mean and spread stay; None, with one seed.
        fewest: About how many would, if the mean were the most favourable of its interval: with
            few seeds the mean is not known well enough to give a loss up by it.
    """

    narrow: bool
    under: float | None
    needed: int | None
    fewest: int | None

    @property
    def settled(self) -> bool:
        """Whether another seed would say nothing more."""
        return self.narrow or self.under is not None

    @property
    def words(self) -> str:
        """A cell of the table."""
        if self.narrow:
            return "yes"
        if self.under is not None:
            return f"under {self.under:.5f}"
        return "NO" if self.needed is None else f"NO ({self.needed} seeds)"


def standing(loss: Mapping[int, float]) -> Standing:
    """How well the mean over some seeds is known.

    Example:
        >>> standing({0: 0.010, 1: 0.0105, 2: 0.0095}).words
        'yes'
        >>> standing({0: 0.00001, 1: -0.00001, 2: 0.00002}).words
        'under 0.00004'
        >>> standing({0: 0.010, 1: 0.012, 2: 0.006}).words
        'NO (11 seeds)'
    """
    values = list(loss.values())
    if len(values) < 2:
        return Standing(False, None, None, None)
    mean, spread = abs(statistics.fmean(values)), statistics.stdev(values)
    narrow = spread / math.sqrt(len(values)) <= TENTH * mean
    found = interval(values)
    assert found.low is not None
    assert found.high is not None
    far = max(abs(found.low), abs(found.high))
    near = 0.0 if found.low <= 0 <= found.high else min(abs(found.low), abs(found.high))
    under = far if far <= SMALL else None
    if len(values) >= FEWEST and (narrow or under is not None):
        return Standing(narrow, under, len(values), len(values))
    least = max(FEWEST, len(values) + 1)
    fewest = min(_needed(far, spread), _needed(near, spread))
    return Standing(False, None, max(least, _needed(mean, spread)), max(least, fewest))


def _needed(mean: float, spread: float) -> int:
    """About how many seeds make the error a tenth of the mean, or the interval small."""
    if spread == 0:
        return FEWEST
    tenth = (spread / (TENTH * mean)) ** 2 if mean else math.inf
    small = (_STUDENT * spread / (SMALL - mean)) ** 2 if mean < SMALL else math.inf
    return math.ceil(min(tenth, small))
