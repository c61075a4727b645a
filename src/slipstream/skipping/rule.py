"""What a rule is: what it gathers, what it freezes for a decision, and how it scores inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slipstream.config import Skip
from slipstream.data.inputs import Array
from slipstream.skipping.accesses import Accesses, Reader
from slipstream.skipping.search import Found, quantile


@dataclass(frozen=True)
class Drawn:
    """Inputs to be scored, each with a chance of its own: a number above 0 and at most 1."""

    accesses: Accesses
    chance: Array

    @property
    def labels(self) -> Array:
        """0 or 1 for each input."""
        return self.accesses.labels


class Rule:
    """Says which inputs teach least; the lowest scores are skipped first.

    A rule gathers from what is trained and skipped, step by step, freezes what it knows when a
    decision is taken, and scores inputs by what was frozen: a pure function, so that an input can
    be judged ahead of its step, and again after a crash. A rule of one's own overrides `score` and
    what else it needs, and stands in the table in `rules/__init__.py`.

    Args:
        keys: The section `skip` of the configuration.
        reader: Reads the accesses of inputs; knows the tables.

    Attributes:
        EXPLORES: Where `skip.explore` is not set: the share of inputs to be skipped that is
            trained all the same.
        CHANCES: Whether every input has some chance to be trained, for which its
            logit is corrected.
        GUARDED: Whether the guard is on where `skip.guard` is not set.
    """

    EXPLORES: ClassVar[float] = 0.0
    CHANCES: ClassVar[bool] = False
    GUARDED: ClassVar[bool] = True

    def __init__(self, keys: Skip, reader: Reader) -> None:
        self.keys, self.reader = keys, reader

    def see(self, trained: Accesses, skipped: Accesses) -> None:
        """Gather from the inputs that a step has trained, and those that were skipped with it."""

    def freeze(self) -> dict[str, Array]:
        """What is known now, for a decision; arrays that do not change any more."""
        return {}

    def fit(self, frozen: Mapping[str, Array], sample: Drawn) -> dict[str, Array]:
        """More to freeze, from a sample of the inputs to come."""
        del frozen, sample
        return {}

    def score(self, frozen: Mapping[str, Array], drawn: Drawn) -> Array:
        """The score of each input; infinite where it is never skipped."""
        raise NotImplementedError

    def search(self, scores: Array, wanted: float) -> Found:
        """The threshold of the scores below which the wanted share of inputs lies."""
        return quantile(scores, wanted)

    def logit_offset(
        self, frozen: Mapping[str, Array], threshold: float, drawn: Drawn
    ) -> Array | None:
        """What is added to the logits of inputs that are trained, in the loss; None adds nothing.

        Where the chance to be trained depends on the label, the log of its ratio, label 1 over
        label 0: then the model predicts what it would have learned from all inputs.
        """
        del frozen, threshold, drawn
        return None

    def state_dict(self) -> dict[str, Array]:
        """What was gathered so far."""
        return {}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Go on from what another rule of the kind had gathered."""


def accesses_so_far(reader: Reader) -> Array:
    """A count for each row, at zero."""
    return np.zeros(reader.rows, dtype=np.uint32)
