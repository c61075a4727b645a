"""The keys about skipping: which examples are trained."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from slipstream.config.kinds import Count, Fraction, Portion, Proportion, about
from slipstream.config.section import Settings


class SkipSettings(Settings, frozen=True, kw_only=True):
    """Which examples are trained."""

    PLACE: ClassVar[str] = "skip"

    rule: Annotated[
        str | None,
        about(
            "The skip rule; null takes the strategy's", registry="slipstream.skip.registry:NAMES"
        ),
    ] = None
    target: Annotated[
        Portion, about("Share of examples to skip; published: of hot examples; freeze: of updates")
    ] = 0.3
    target_schedule: Annotated[
        tuple[Portion, ...],
        about("Instead of target: the share for each decision in turn; the last one stays"),
    ] = ()
    warmup: Annotated[
        Proportion | None,
        about(
            "Share of an epoch that is trained before the first decision; null is 0.1. published: "
            "of hot batches; null is 0.05 for tbsm, else 0.03"
        ),
    ] = None
    interval: Annotated[Fraction, about("Share of an epoch from one decision to the next")] = 0.05
    lag: Annotated[
        Count | None,
        about("Batches from a decision to its effect; null is as many as are read ahead"),
    ] = None
    options: Annotated[
        dict[str, Any], about("The rule's own options; see docs/skipping.md", "a mapping")
    ] = {}
