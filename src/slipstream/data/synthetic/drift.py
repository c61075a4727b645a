"""How popularity and the teacher change over the inputs of built-in data."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slipstream.data.synthetic.bits import high32
from slipstream.errors import ConfigError

_SUBJECTS = ("popularity", "teacher")


@dataclass(frozen=True)
class Change:
    """`none`; `gradual`, each row at its own moment, spread evenly over the inputs; or `sudden`.

    A row has two versions of itself, and `version` says which one is in force.
    """

    kind: str = "none"
    share: float = 0.0

    def version(self, moment: Tensor, words: Tensor) -> Tensor:
        """0 or 1 for each row.

        Args:
            moment: How much of the data has passed, from 0 to 2^32.
            words: A random word for each row.
        """
        if self.kind == "none":
            return torch.zeros_like(moment)
        switch = high32(words) if self.kind == "gradual" else round(self.share * 2**32)
        return (moment >= switch).long()

    def __str__(self) -> str:
        return f"sudden@{self.share:g}" if self.kind == "sudden" else self.kind


@dataclass(frozen=True)
class Drift:
    """The changes of which rows are popular, and of what makes an input positive."""

    popularity: Change = Change()
    teacher: Change = Change()

    @classmethod
    def parse(cls, text: str) -> Drift:
        """The drift that a user wrote.

        Example:
            >>> Drift.parse("popularity=gradual,teacher=sudden@0.5").teacher.share
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
    kind, at, share = text.partition("@")
    if kind in ("none", "gradual") and not at:
        return Change(kind)
    if kind == "sudden" and at:
        try:
            value = float(share)
        except ValueError:
            value = -1.0
        if 0 <= value <= 1:
            return Change("sudden", value)
    raise ConfigError(
        f"Drift {text!r} is not known; write none, gradual, or sudden@SHARE with a share of the "
        "inputs from 0 to 1, such as sudden@0.5."
    )
