"""What a training tells while it goes on; how it is shown is for others to decide."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Report:
    """Where a training stands.

    Args:
        phase: What it is doing: train, evaluate, and so on.
        done: Inputs that are done, of the whole run or of this evaluation.
        total: Inputs there are.
        rate: Inputs a second, lately.
        scores: The metrics of the last inputs, by name.
    """

    phase: str
    done: int
    total: int
    rate: float | None = None
    scores: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at this rate.

        Example:
            >>> Report("train", 250, 1000, rate=50.0).seconds_left
            15.0
        """
        return (self.total - self.done) / self.rate if self.rate else None


Progress = Callable[[Report], None]


def silent(report: Report) -> None:
    """Show nothing."""


class Pace:
    """The rate over about the last seconds: steady to look at, and soon right after a change.

    Args:
        seconds: How far it looks back.

    Example:
        >>> pace = Pace(seconds=10)
        >>> [pace.at(done, now) for done, now in ((0, 0.0), (50, 5.0), (100, 10.0), (400, 20.0))]
        [None, 10.0, 10.0, 30.0]
    """

    def __init__(self, seconds: float = 10.0) -> None:
        self.seconds = seconds
        self._seen: deque[tuple[int, float]] = deque()

    def at(self, done: int, now: float) -> float | None:
        """The rate, told that so many inputs are done now; None where nothing can be said yet."""
        self._seen.append((done, now))
        while len(self._seen) > 2 and self._seen[1][1] <= now - self.seconds:
            self._seen.popleft()
        first, begun = self._seen[0]
        return (done - first) / (now - begun) if now > begun else None
