"""How popularity and the teacher change over the examples of built-in data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.arrays import Array
from slipstream.data.synthetic.random_words import shares
from slipstream.errors import ConfigError

_SUBJECTS = ("popularity", "teacher")


@dataclass(frozen=True)
class Change:
    """`none`; `gradual`, each row at its own moment; or `sudden`, all rows at one moment."""

    kind: str = "none"
    moment: float = 0.0

    def has_happened(self, moments: Array, words: Array) -> Array:
        """Whether each row has changed.

        Args:
            moments: The share of the log that has passed, from 0 to 1.
            words: A random word for each row.
        """
        if self.kind == "none":
            return np.zeros(len(moments), dtype=bool)
        return moments >= (shares(words) if self.kind == "gradual" else self.moment)

    def __str__(self) -> str:
        return f"sudden@{self.moment:g}" if self.kind == "sudden" else self.kind


@dataclass(frozen=True)
class Drift:
    """The changes of which rows are popular, and of what makes an example positive."""

    popularity: Change = Change()
    teacher: Change = Change()

    @classmethod
    def parse(cls, text: str) -> Drift:
        """The drift that a user wrote.

        Example:
            >>> Drift.parse("popularity=gradual,teacher=sudden@0.5").teacher.moment
            0.5
        """
        changes = dict.fromkeys(_SUBJECTS, Change())
        for piece in text.split(","):
            subject, equals, change = piece.strip().rpartition("=")
            if equals and subject not in _SUBJECTS:
                raise ConfigError(
                    f"Drift of {subject!r} is not known; write popularity=... or teacher=..., "
                    "or leave the name out to change both."
                )
            for name in [subject] if equals else _SUBJECTS:
                changes[name] = _parse_change(change)
        return cls(**changes)

    def __str__(self) -> str:
        return f"popularity={self.popularity},teacher={self.teacher}"


def _parse_change(text: str) -> Change:
    kind, at, moment = text.partition("@")
    if kind in ("none", "gradual") and not at:
        return Change(kind)
    try:
        if kind == "sudden" and 0 <= float(moment) <= 1:
            return Change("sudden", float(moment))
    except ValueError:
        pass
    raise ConfigError(
        f"Drift {text!r} is not known; write none, gradual, or sudden@SHARE with a share of the "
        "inputs from 0 to 1, such as sudden@0.5."
    )
