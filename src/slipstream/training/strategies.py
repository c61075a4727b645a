"""A strategy is a choice of three answers: a line in a table."""

from __future__ import annotations

from typing import Literal, NamedTuple

from slipstream.errors import ConfigError, did_you_mean


class Tier(NamedTuple):
    """How a fast tier is used.

    Args:
        keep: Whether the most accessed rows stay in it.
        window: The most batches to look ahead, where the configuration does not say.
    """

    keep: bool
    window: int


class Strategy(NamedTuple):
    """In what order inputs come, which are trained, and where rows live when their batch comes.

    Args:
        ordering: as is.
        skipping: all.
        placement: How a fast tier is used; None trains in the slow one.
        promise: What is trained, beside plain training on the same batches: the same bits, or
            the same numbers up to rounding.
    """

    ordering: str
    skipping: str
    placement: Tier | None
    promise: Literal["bits", "rounding"] = "bits"

    def same_but_for_placement(self, other: Strategy) -> bool:
        """Whether a run may change from one to the other on its way."""
        return (self.ordering, self.skipping) == (other.ordering, other.skipping)


STRATEGIES = {
    "plain": Strategy("as is", "all", None),
    "bagpipe": Strategy("as is", "all", Tier(keep=False, window=200)),
    "fast": Strategy("as is", "all", Tier(keep=True, window=8)),
}


def strategy(name: str) -> Strategy:
    """The strategy of that name."""
    if name not in STRATEGIES:
        raise ConfigError(f"There is no strategy {name!r}.{did_you_mean(name, STRATEGIES)}")
    return STRATEGIES[name]
