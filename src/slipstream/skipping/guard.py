"""The guard: looks at a few of the skipped inputs, and lets them back in when they change."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from slipstream.data.inputs import Array
from slipstream.report.statistics import t_quantile
from slipstream.skipping.chance import uniform

LogitsOf = Callable[[Array], tuple[Array, Array]]
"""The logits of the inputs of these numbers, as the model is now, and their labels."""

FALSE_ALARMS = 0.01  # the chance of any alarm in a run in which nothing changes
RISE = 0.01  # by how much the surprise must have risen, however sure that is
SHIFT = 0.25  # and by how much of itself the label rate must have shifted
LEAST = 64  # inputs in a window without which nothing is said
WINDOWS = 6  # windows before which nothing is said
LAST = 3  # windows that are looked at together
FADES = 0.97  # what is left of older windows with each new one
AUDITED = 0.04  # of all inputs at most: what is scored costs a third of what is trained
GROWTH = 0.25  # of the share that comes back at each decision after an alarm


class Alarm(NamedTuple):
    """Why the guard cut the share: a sentence, and where."""

    position: int
    why: str


class Guard:
    """Watches the loss and the label mix of what is skipped, window by window.

    In each window a sample of the skipped inputs is scored, not trained. What is compared with all
    windows since the last alarm is their surprise: their loss, less the loss that the model itself
    expects, which is 0 on average for a model that knows its world, whichever inputs are asked
    about. So is the surprise of what is trained, which costs nothing. The label rate of all skipped
    inputs over that of all inputs is compared with windows of the same decision: another one skips
    others, with other labels. When one of them has changed by more than windows differ anyway,
    everything is trained from there on, and the share grows back slowly. It sees gross changes,
    never 0.0005 AUC.

    Every look is a few tests, and a run has many looks. Each test is as strict as it takes for all
    of them together to raise an alarm in `false_alarms` of the runs in which nothing changes.

    Args:
        seed: Of the run.
        window: Positions of a window; where so few are scored that nothing could be said, more.
        audit: The most skipped inputs that are scored in one.
        inputs: Positions of the whole run.
        by_label: Whether inputs are skipped by their label too. Then the surprise of either part
            alone is the rule's, and moves with each decision; that of both together, each weighed
            by its size, is the model's again, and is looked at instead.
        false_alarms: The chance of any alarm in a run in which nothing changes.

    Attributes:
        factor: How much of the wanted share is skipped.
    """

    def __init__(
        self,
        seed: int,
        window: int,
        audit: int,
        inputs: int,
        *,
        by_label: bool = False,
        false_alarms: float = FALSE_ALARMS,
    ) -> None:
        self._by_label = by_label
        self._seed, self._window = seed, max(round(LEAST / AUDITED), window)
        self._audit = min(audit, round(AUDITED * self._window))
        looks = max(1, inputs // self._window)
        # Surprise is tested over one to LAST windows, of all inputs or of two parts; labels once,
        # for a shift either way.
        self._chance = false_alarms / looks / (LAST * (1 if by_label else 2) + 2)
        self.factor = 1.0
        self.alarms: list[Alarm] = []
        self.audited, self.audit_loss = 0, 0.0
        self._cut_at = self._age = 0
        self._waiting: list[int] = []
        self._now = _Mix()
        self._before = _Mix()
        self._decision = 0
        self._skipped, self._trained = _Windows(), _Windows()
        self._surprise, self._inputs, self._left_out = 0.0, 0, 0

    def add(
        self, decision: int, numbers: Array, skipped: Array, logits: Array, trained: Array
    ) -> None:
        """Take note of a step.

        Args:
            decision: The number of the decision that held for it.
            numbers: The inputs that were skipped with it.
            skipped: Their labels.
            logits: Of the inputs that it trained, as the model predicts them.
            trained: Their labels.
        """
        if decision != self._decision:
            self._decision = decision
            self._before, self._now = _Mix(), _Mix()
        self._now.add(skipped, trained)
        self._left_out += len(skipped)
        self._surprise += float(surprise(logits, trained).sum())
        self._inputs += len(trained)
        room = self._audit - len(self._waiting)
        if room and len(numbers):
            rate = 3 * self._audit / self._window
            drawn = numbers[uniform(self._seed, "audit", numbers) <= rate]
            self._waiting += drawn[:room].tolist()

    def look(self, before: int, position: int, logits_of: LogitsOf) -> Alarm | None:
        """At the end of a window: score what was drawn, and say whether something has changed."""
        if position // self._window == before // self._window:
            return None
        audited = self._audited(logits_of)
        trained = self._surprise / self._inputs if self._inputs >= LEAST else None
        if self._by_label:
            self._trained.join(self._of_all(audited, trained))
        else:
            self._skipped.join(None if len(audited) < LEAST else float(audited.mean()))
            self._trained.join(trained)
        self._surprise, self._inputs, self._left_out = 0.0, 0, 0
        why = (
            self._skipped.risen("skipped", self._chance)
            or self._trained.risen(self._what, self._chance)
            or self._before.shifted(self._now, self._chance)
        )
        if why:
            self._skipped, self._trained = _Windows(), _Windows()
            self._before, self._now = _Mix(), _Mix()
            self.factor, self._age, self._cut_at = 0.0, position - self._cut_at, position
            self.alarms.append(Alarm(position, why))
            return self.alarms[-1]
        self._before.join(self._now)
        self._now = _Mix()
        return None

    @property
    def _what(self) -> str:
        """What beside skipped inputs is looked at."""
        return "all" if self._by_label else "trained"

    def _of_all(self, audited: Array, trained: float | None) -> float | None:
        """The mean surprise of all inputs of the window; None where too little of it is known."""
        share = self._left_out / max(1, self._left_out + self._inputs)
        if trained is None or len(audited) < share * LEAST:
            return None
        return (1 - share) * trained + share * float(audited.mean()) if share else trained

    def _audited(self, logits_of: LogitsOf) -> Array:
        """The surprise of each input that was drawn."""
        if not self._waiting:
            return np.zeros(0)
        logits, labels = logits_of(np.array(self._waiting, dtype=np.int64))
        self._waiting = []
        self.audited += len(labels)
        self.audit_loss += float(np.logaddexp(0, np.where(labels > 0, -logits, logits)).sum())
        return surprise(logits, labels)

    def grow(self, position: int, interval: int) -> None:
        """Before a decision: skip more again, once the model is as old as it was at the alarm.

        What it had learned before is gone: it is trained on as many inputs as it took then.
        """
        if self.factor < 1 and position - self._cut_at >= max(interval, self._age):
            self.factor = min(1.0, self.factor + GROWTH)

    def state_dict(self) -> dict[str, Any]:
        """All there is to go on from here, as JSON."""
        return {
            "factor": self.factor,
            "alarms": [list(one) for one in self.alarms],
            "audited": [self.audited, self.audit_loss],
            "cut_at": [self._cut_at, self._age],
            "waiting": list(self._waiting),
            "mixes": [list(vars(one).values()) for one in (self._now, self._before)],
            "windows": [list(vars(one).values()) for one in (self._skipped, self._trained)],
            "trained": [self._surprise, self._inputs, self._left_out, self._decision],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from another one."""
        self.factor, (self._cut_at, self._age) = state["factor"], state["cut_at"]
        self.alarms = [Alarm(*one) for one in state["alarms"]]
        self.audited, self.audit_loss = state["audited"]
        self._waiting = list(state["waiting"])
        self._now, self._before = (_Mix(*one) for one in state["mixes"])
        self._skipped, self._trained = (_Windows(*one) for one in state["windows"])
        self._surprise, self._inputs, self._left_out, self._decision = state["trained"]

    def summary(self) -> dict[str, Any]:
        """What it saw, and what it can see."""
        sees = {} if self._by_label else {"skipped": self._skipped.sees(self._chance)}
        return {
            "alarms": [one._asdict() for one in self.alarms],
            "inputs_audited": self.audited,
            "sees_surprise_of": sees | {self._what: self._trained.sees(self._chance)},
        }


def surprise(logits: Array, labels: Array) -> Array:
    """The loss of each input, less the loss that the model expects.

    Example:
        >>> surprise(np.array([2.0, 2.0]), np.array([1.0, 0.0])).round(3).tolist()
        [-0.238, 1.762]
    """
    chance = 1 / (1 + np.exp(-np.clip(logits, -30, 30)))
    return np.asarray((chance - (labels > 0)) * logits, dtype=np.float64)


@cache
def _student(chance: float, freedom: int) -> float:
    """How many standard errors Student's t exceeds with a small chance."""
    return t_quantile(1 - chance, freedom)


class _Windows:
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


class _Mix:
    """Skipped inputs, the positives among them, and how many were to be expected.

    Expected are as many as if the rate were that of all inputs, step by step: inputs of one step
    are of one time, so a rate that changes with time changes both.
    """

    def __init__(self, skipped: int = 0, positive: int = 0, expected: float = 0.0) -> None:
        self.skipped, self.positive, self.expected = skipped, positive, expected

    def add(self, skipped: Array, trained: Array) -> None:
        positive, inputs = int((skipped > 0).sum()), len(skipped) + len(trained)
        self.skipped += len(skipped)
        self.positive += positive
        self.expected += len(skipped) * (positive + int((trained > 0).sum())) / max(1, inputs)

    def join(self, other: _Mix) -> None:
        self.skipped += other.skipped
        self.positive += other.positive
        self.expected += other.expected

    def shifted(self, now: _Mix, chance: float) -> str:
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
