"""The keys about skipping: which inputs are trained."""

# ruff: noqa: RUF009 - `key` makes a field, as `dataclasses.field` does
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from slipstream.config.keys import Section, key

# The same names as in `skipping/rules/`, which takes seconds to import; a test compares them.
RuleName = Literal["none", "random", "value", "thin"]


@dataclass(frozen=True)
class Skip(Section):
    """Which inputs are trained."""

    WHERE: ClassVar[str] = "skip"

    rule: RuleName | None = key(None, "Which inputs are skipped; null is as the strategy says")
    target: float = key(
        0.3, "Share of inputs to skip, of those that a rule may skip", least=0, below=1
    )
    shares: tuple[float, ...] = key(
        (),
        "Instead of target: the share that each decision in turn asks for; the last one stays",
        least=0,
        below=1,
    )
    warmup: float | None = key(
        None,
        "Share of an epoch that is trained before the first decision; null is 0.1",
        least=0,
        most=1,
    )
    interval: float = key(0.05, "Share of an epoch from one decision to the next", above=0, most=1)
    repeat: bool | None = key(None, "Decide anew every interval; null does")
    lag: int | None = key(
        None, "Batches from a decision to its effect; null is the fewest", least=1
    )
    sample_inputs: int = key(8192, "Inputs to come on which a threshold is searched", least=1)
    explore: float | None = key(
        None,
        "Share of the inputs to be skipped that is trained all the same; null is 0.02 for value, "
        "else 0",
        least=0,
        below=1,
    )
    keep_negatives: float | None = key(
        None,
        "Chance with which thin trains a negative; null is the one that skips the target",
        least=0.01,
        most=1,
    )
