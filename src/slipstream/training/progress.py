"""The progress of a training, as its caller receives it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Progress:
    """How far a training is."""

    phase: str  # train, evaluation, and so on
    done: int  # inputs, of the whole run or of this evaluation
    total: int  # inputs in all
    rate: float | None = None  # inputs a second, lately
    scores: Mapping[str, float | None] = field(default_factory=dict)  # of the last inputs, by name

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at this rate.

        Example:
            >>> Progress("train", 250, 1000, rate=50.0).seconds_left
            15.0
        """
        return (self.total - self.done) / self.rate if self.rate else None


class Pace:
    """The rate over about the last seconds: steady, but right soon after a change.

    Example:
        >>> pace = Pace(seconds=10)
        >>> [pace.rate(done, now) for done, now in ((0, 0.0), (50, 5.0), (100, 10.0), (400, 20.0))]
        [None, 10.0, 10.0, 30.0]
    """

    def __init__(self, seconds: float = 10.0) -> None:
        self.seconds = seconds
        self._seen: deque[tuple[int, float]] = deque()

    def rate(self, done: int, now: float) -> float | None:
        """The rate, given that so many inputs are done now; None for the first time."""
        self._seen.append((done, now))
        while len(self._seen) > 2 and self._seen[1][1] <= now - self.seconds:
            self._seen.popleft()
        first, begun = self._seen[0]
        return (done - first) / (now - begun) if now > begun else None
