"""FAE's shuffle scheduler: the rate at which hot and cold batches alternate."""

from __future__ import annotations

from slipstream.errors import ConfigError

START, LEAST, MOST = 50, 1, 100
FALLS = 4


class Rates:
    """The rate of each segment: the per cent of it that is trained before hot and cold alternate.

    A high rate alternates seldom, which is cheap; a low rate mixes more finely. It starts at 50, is
    halved when the loss rises, and doubled after four falls in a row, between 1 and 100. The
    decision at the end of segment s holds from segment s + lag on, so batches that are read ahead
    do not depend on the moment of the decision.

    Args:
        lag: Segments from a decision to its effect, at least 1.
        fixed: The rate of all segments, whatever the loss; None follows it.

    Example:
        >>> rates = Rates(lag=1)
        >>> for segment, loss in enumerate([0.6, 0.7, 0.6, 0.5, 0.4, 0.3]):
        ...     rates.report_loss(segment, loss)
        >>> [rates.of(segment) for segment in range(8)]
        [50, 50, 25, 25, 25, 25, 50, None]
    """

    def __init__(self, lag: int = 2, fixed: int | None = None) -> None:
        if lag < 1:
            raise ConfigError(f"The lag is {lag} segments; it must be at least 1.")
        if fixed is not None and not LEAST <= fixed <= MOST:
            raise ConfigError(f"The rate is {fixed} %; it must be {LEAST} to {MOST}.")
        self.lag, self.fixed = lag, fixed
        self._decided: list[tuple[int, int]] = []  # segment, and the rate that follows from it
        self._loss: float | None = None
        self._falls = 0

    @property
    def last(self) -> int:
        """The last segment whose loss was reported; -1 before the first."""
        return self._decided[-1][0] if self._decided else -1

    def report_loss(self, segment: int, loss: float) -> None:
        """Receive the loss at the end of a segment."""
        if segment <= self.last:
            raise ConfigError(f"The loss of segment {segment} comes after that of {self.last}.")
        rate = self._decided[-1][1] if self._decided else START
        if self._loss is not None and loss > self._loss:
            rate, self._falls = max(LEAST, rate // 2), 0
        elif self._loss is not None and loss < self._loss:
            self._falls += 1
            if self._falls == FALLS:
                rate, self._falls = min(MOST, rate * 2), 0
        self._loss = loss
        self._decided.append((segment, rate))

    def of(self, segment: int) -> int | None:
        """The rate of a segment; None if it is not decided yet."""
        if self.fixed is not None:
            return self.fixed
        decides = segment - self.lag
        if decides > self.last:
            return START if decides < 0 else None
        earlier = (rate for at, rate in reversed(self._decided) if at <= decides)
        return next(earlier, START)
