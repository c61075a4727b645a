"""The guard: looks at a few of the skipped inputs, and lets them back in when they change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from slipstream.data.inputs import Array
from slipstream.skipping.chance import uniform
from slipstream.skipping.drift import LAST, LEAST, Mix, Windows
from slipstream.skipping.heard import Group, sums_by_step

LogitsOf = Callable[[Array], tuple[Array, Array]]
"""The logits of the inputs of these numbers, as the model is now, and their labels."""

FALSE_ALARMS = 0.01  # the chance of any alarm in a run in which nothing changes
AUDITED = 0.04  # of all inputs at most: what is scored costs a third of what is trained
GUARDED, UNGUARDED = 0.005, 0.2  # of an epoch: a window where it acts, and where it only scores
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
        acts: Whether it raises alarms; otherwise it scores skipped inputs for the report alone.

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
        acts: bool = True,
    ) -> None:
        self.acts, self._by_label = acts, by_label
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
        self._now = Mix()
        self._before = Mix()
        self._decision = 0
        self._skipped, self._trained = Windows(), Windows()
        self._surprise, self._inputs, self._left_out = 0.0, 0, 0

    def add(self, group: Group) -> None:
        """Take note of some steps, none of which ends a window but the last."""
        if self.acts:
            if group.decision != self._decision:
                self._decision = group.decision
                self._before, self._now = Mix(), Mix()
            surprises = sums_by_step(surprise(group.logits, group.labels), group.ends)
            for counts, rise in zip(group.counts, surprises, strict=True):
                self._now.add(
                    counts.skipped,
                    counts.skipped_positive,
                    counts.trained,
                    counts.trained_positive,
                )
                self._left_out += counts.skipped
                self._surprise += rise
                self._inputs += counts.trained
        numbers = group.skipped
        room = self._audit - len(self._waiting)
        if room and len(numbers):
            rate = 3 * self._audit / self._window
            drawn = numbers[uniform(self._seed, "audit", numbers) <= rate]
            self._waiting += drawn[:room].tolist()

    def looks(self, before: int, position: int) -> bool:
        """Whether a window ends between two positions."""
        return position // self._window != before // self._window

    def look(self, before: int, position: int, logits_of: LogitsOf) -> Alarm | None:
        """At the end of a window: score what was drawn, and say whether something has changed."""
        if not self.looks(before, position):
            return None
        audited = self._audited(logits_of)
        if not self.acts:
            return None
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
            self._skipped, self._trained = Windows(), Windows()
            self._before, self._now = Mix(), Mix()
            self.factor, self._age, self._cut_at = 0.0, position - self._cut_at, position
            self.alarms.append(Alarm(position, why))
            return self.alarms[-1]
        self._before.join(self._now)
        self._now = Mix()
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
        self._now, self._before = (Mix(*one) for one in state["mixes"])
        self._skipped, self._trained = (Windows(*one) for one in state["windows"])
        self._surprise, self._inputs, self._left_out, self._decision = state["trained"]

    def summary(self) -> dict[str, Any]:
        """What it saw, and what it can see; nothing where it does not act."""
        if not self.acts:
            return {}
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
