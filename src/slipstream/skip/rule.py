"""What a rule is: what it gathers, what it freezes for a decision, and how it scores inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from slipstream.config import Skip
from slipstream.data.inputs import Array
from slipstream.skip.accesses import Accesses
from slipstream.skip.calendar import Calendar
from slipstream.skip.context import Context
from slipstream.skip.search import Found, quantile
from slipstream.tables.plan import Plan

if TYPE_CHECKING:
    from slipstream.skip.classifier import Classifier


ALL = 1 << 30
"""As many of an input's rows or tables as there are."""


@dataclass(frozen=True)
class Drawn:
    """Inputs to be scored, each with a chance of its own: a number above 0 and at most 1."""

    accesses: Accesses
    chance: Array

    @property
    def labels(self) -> Array:
        """0 or 1 for each input."""
        return self.accesses.labels


@dataclass(frozen=True)
class Sample:
    """Inputs to come, on which a threshold is searched.

    Args:
        drawn: The inputs.
        share: The share of all inputs to come that they stand for.
    """

    drawn: Drawn
    share: float = 1.0


class Rule:
    """Says which inputs teach least; the lowest scores are skipped first.

    A rule gathers from what is trained and skipped, step by step, freezes what it knows when a
    decision is taken, and scores inputs by what was frozen: a pure function, so that an input can
    be judged ahead of its step, and again after a crash. When it decides is in its calendar. A rule
    of one's own overrides `score` and what else it needs, and stands in the table in
    `rules/__init__.py`.

    Args:
        context: The run that it is for.

    Attributes:
        calendar: When it looks at rows, and when it decides.
        EXPLORES: Where `skip.explore` is not set: the share of inputs to be skipped that is
            trained all the same.
        CHANCES: Whether every input has some chance to be trained, for which its logit is
            corrected.
        SEES: Whether it gathers from inputs that were trained, and from those that were skipped.
        FREEZES: Whether it leaves rows as they are, by `still`.
        GATHERED: Bytes of what it gathers for each row.
        FROZEN: Bytes of what a decision freezes for each row.
        FROZEN_AGAIN: Bytes more of it where inputs come again, in another epoch.
        LEAVES_COLD: Whether it skips inputs whose rows are accessed often rather than others.
        NEEDS_HOT: Whether it asks for the hot rows.
        MAKES_UP: Whether a decision makes up for what those before it skipped too much or too
            little.
    """

    EXPLORES: ClassVar[float] = 0.0
    CHANCES: ClassVar[bool] = False
    SEES: ClassVar[tuple[bool, bool]] = (False, False)
    FREEZES: ClassVar[bool] = False
    GATHERED: ClassVar[int] = 0
    FROZEN: ClassVar[int] = 0
    FROZEN_AGAIN: ClassVar[int] = 0
    LEAVES_COLD: ClassVar[bool] = True
    NEEDS_HOT: ClassVar[bool] = False
    MAKES_UP: ClassVar[bool] = True

    def __init__(self, context: Context) -> None:
        self.context, self.keys = context, context.keys
        self.calendar = Calendar(context)

    @classmethod
    def needs_hot(cls, keys: Skip) -> bool:
        """Whether it asks for the hot rows, with these keys."""
        del keys
        return cls.NEEDS_HOT

    @classmethod
    def decides_once(cls, keys: Skip) -> bool:
        """Whether it decides only once, with these keys."""
        return keys.repeat is False

    def see(self, trained: Accesses | None, skipped: Accesses | None) -> None:
        """Gather from the inputs that a step has trained, and those that were skipped with it.

        Args:
            trained: None unless `SEES` says that it wants them.
            skipped: The same.
        """

    def due(self, plan: Plan, before: int) -> bool:
        """Whether a decision is to be taken after a step, before which this was the position.

        That is for the calendar to say: who plans ahead asks another one like it, not the rule.
        """
        return self.calendar.due(plan, before)

    def freeze(self) -> dict[str, Array]:
        """What is known now, for a decision; arrays that do not change any more."""
        return {}

    def sample(self, classifier: Classifier, position: int) -> Sample:
        """Inputs to come, on which a threshold is searched: those that the decision holds for."""
        ahead = self.context.every if self.context.repeats else len(self.context.base)
        first = min(position + self.context.late, len(self.context.base))
        return Sample(classifier.sample(first, first + ahead, self.keys.sample_inputs))

    def fit(self, frozen: Mapping[str, Array], drawn: Drawn) -> dict[str, Array]:
        """More to freeze, from a sample of the inputs to come."""
        del frozen, drawn
        return {}

    def score(self, frozen: Mapping[str, Array], drawn: Drawn) -> Array:
        """The score of each input; infinite where it is never skipped."""
        raise NotImplementedError

    def search(self, frozen: Mapping[str, Array], drawn: Drawn, wanted: float) -> Found:
        """The threshold of the scores below which the wanted share of inputs lies."""
        return quantile(self.score(frozen, drawn), wanted)

    def logit_offset(
        self, frozen: Mapping[str, Array], threshold: float, drawn: Drawn
    ) -> Array | None:
        """What is added to the logits of inputs that are trained, in the loss; None adds nothing.

        Where the chance to be trained depends on the label, the log of its ratio, label 1 over
        label 0: then the model predicts what it would have learned from all inputs.
        """
        del frozen, threshold, drawn
        return None

    def still(self, frozen: Mapping[str, Array], threshold: float) -> Array | None:
        """Whether each row stays as it is, though its inputs are trained; None moves all."""
        del frozen, threshold
        return None

    def keeps(self, frozen: Mapping[str, Array]) -> Array | None:
        """A number for each row: the largest of an input's rows is what keeps it; None if none."""
        del frozen
        return None

    def state_dict(self) -> dict[str, Array]:
        """What was gathered so far."""
        return {}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Go on from what another rule of the kind had gathered."""

    def too_short(self) -> str:
        """A sentence where the run is too short for any decision; nothing otherwise."""
        first, late = self.context.first, self.context.late
        if first + late < len(self.context.base):
            return ""
        holds = f" and holds {self.keys.lag} batches later" if late else ""
        return (
            f"Nothing will be skipped: the first decision comes after {first:,} inputs{holds}, and "
            f"the run has {len(self.context.base):,}. Set skip.warmup"
            f"{' or skip.lag lower, or make batches smaller' if late else ' lower'}."
        )
