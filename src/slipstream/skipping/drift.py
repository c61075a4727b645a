"""Whether windows of a run differ by more than chance: in their surprise, or in their labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist

from slipstream.student import t_quantile

RISE = 0.01  # by how much the surprise must have risen, however sure that is
SHIFT = 0.25  # and by how much of itself the label rate must have shifted
LEAST = 64  # inputs in a window without which nothing is said
WINDOWS = 6  # windows before which nothing is said
LAST = 3  # windows that are looked at together
FADES = 0.97  # what is left of older windows with each new one


@cache
def _student(chance: float, freedom: int) -> float:
    """How many standard errors Student's t exceeds with a small chance."""
    return t_quantile(1 - chance, freedom)


class Windows:
    """The means of windows: the last ones, and what those before them were like.

    A window counts as one: what is scored in it is scored by one model, and errs together. Older
    ones fade: early in a training they differ more.
    """

    def __init__(
        self,
        n: float = 0.0,
        total: float = 0.0,
        squares: float = 0.0,
        last: Sequence[float] = (),
    ) -> None:
        self.n, self.total, self.squares, self.last = n, total, squares, list(last)

    def join(self, mean: float | None) -> None:
        """Add the mean of a window; None is one of which nothing is known."""
        if mean is None:
            return
        self.last.append(mean)
        if len(self.last) > LAST:
            oldest = self.last.pop(0)
            self.n = FADES * self.n + 1
            self.total = FADES * self.total + oldest
            self.squares = FADES * self.squares + oldest * oldest

    @property
    def mean(self) -> float:
        """Of the windows before the last ones."""
        return self.total / max(1.0, self.n)

    def sees(self, chance: float, windows: int = LAST) -> float | None:
        """The rise that so many windows would have to show; None before there are enough to say.

        Args:
            chance: That of as high a rise where nothing has changed.
            windows: So many of the last ones are looked at together.
        """
        if self.n < WINDOWS:
            return None
        variance = max(0.0, self.squares - self.n * self.mean**2) / (self.n - 1)
        error = _student(chance, int(self.n) - 1) * math.sqrt(variance * (1 / windows + 1 / self.n))
        return max(RISE, error)

    def risen(self, which: str, chance: float) -> str:
        """Why the last windows are higher by more than chance; nothing if they are not."""
        for windows in range(1, len(self.last) + 1):
            mean, rise = sum(self.last[-windows:]) / windows, self.sees(chance, windows)
            if rise is not None and mean > self.mean + rise:
                return (
                    f"the surprise of {which} inputs rose from {self.mean:.4f} to {mean:.4f}: they "
                    "are no longer as the model has learned"
                )
        return ""


class Mix:
    """Skipped inputs, the positives among them, and how many were to be expected.

    Expected are as many as if the rate were that of all inputs, step by step: inputs of one step
    are of one time, so a rate that changes with time changes both.
    """

    def __init__(self, skipped: int = 0, positive: int = 0, expected: float = 0.0) -> None:
        self.skipped, self.positive, self.expected = skipped, positive, expected

    def add(self, skipped: int, positive: int, trained: int, trained_positive: int) -> None:
        """Count a step: the inputs that it skipped and trained, and the positives among each."""
        self.skipped += skipped
        self.positive += positive
        self.expected += skipped * (positive + trained_positive) / max(1, skipped + trained)

    def join(self, other: Mix) -> None:
        """Add what another one has counted."""
        self.skipped += other.skipped
        self.positive += other.positive
        self.expected += other.expected

    def shifted(self, now: Mix, chance: float) -> str:
        """Why the label rate of what is skipped is another one, beside that of all inputs."""
        if min(self.skipped, now.skipped) < 4 * LEAST or not (self.positive and now.expected):
            return ""
        scale = now.expected / self.expected
        expected, found = self.positive * scale / now.skipped, now.positive / now.skipped
        # The root of a count has about the same spread, whatever the count is: twice it, one.
        roots = [2 * math.sqrt(one + 3 / 8) for one in (self.positive, now.positive)]
        errors = abs(roots[1] - roots[0] * math.sqrt(scale)) / math.sqrt(1 + scale)
        if abs(found - expected) < SHIFT * expected or errors < NormalDist().inv_cdf(1 - chance):
            return ""
        return (
            f"the label rate of skipped inputs is {found:.4f}, where that of all inputs lets "
            f"expect {expected:.4f}"
        )
