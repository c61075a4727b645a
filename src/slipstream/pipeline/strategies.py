"""A strategy is a choice of three answers: a line in a table."""

from __future__ import annotations

from typing import Literal, NamedTuple

from slipstream.config import Config
from slipstream.config.section import check_choices
from slipstream.errors import ConfigError, did_you_mean

Promise = Literal["bits", "rounding"]


class TierPolicy(NamedTuple):
    """How a fast tier is used.

    Args:
        keep: Whether the most accessed rows stay in it.
        window: The most batches to look ahead, where the configuration does not say.
        learning: The share of an epoch after which rows are kept; 0 keeps some from the start.
        refresh: The share of an epoch after which the kept rows are chosen anew; 0 never does.
    """

    keep: bool
    window: int
    learning: float = 0.0
    refresh: float = 0.0


class Strategy(NamedTuple):
    """In what order examples come, which are trained, and where rows are during their batch.

    Args:
        ordering: as-is; apart: no batch mixes hot and cold examples; cold-first: the same, and all
            cold examples of an epoch come first; split: each batch in two parts.
        skipping: The rule by which examples are skipped; none trains all.
        placement: How a fast tier is used; None trains in the slow tier.
        promise: The result compared with plain training on the same batches: the same bits, or
            the same numbers up to rounding.
    """

    ordering: str
    skipping: str
    placement: TierPolicy | None
    promise: Promise = "bits"

    @property
    def apart(self) -> bool:
        """Whether no batch mixes hot and cold examples."""
        return self.ordering in ("apart", "cold-first")

    def trains_as_many(self, other: Strategy) -> bool:
        """Whether a run may change from one to the other, where their orders allow it."""
        return self.skipping == other.skipping


ORDERS = ("as-is", "apart", "cold-first", "split")
PLACEMENTS = {
    "slow": None,
    "popular": TierPolicy(keep=True, window=1),
    "learned": TierPolicy(keep=True, window=1, learning=0.05, refresh=0.0025),
    "lookahead": TierPolicy(keep=False, window=200),
    "popular+lookahead": TierPolicy(keep=True, window=8, refresh=0.04),
}

STRATEGIES = {
    "plain": Strategy("as-is", "none", PLACEMENTS["slow"]),
    "fae": Strategy("apart", "none", PLACEMENTS["popular"]),
    "hotline": Strategy("split", "none", PLACEMENTS["learned"], promise="rounding"),
    "bagpipe": Strategy("as-is", "none", PLACEMENTS["lookahead"]),
    "fast": Strategy("as-is", "none", PLACEMENTS["popular+lookahead"]),
    "slipstream": Strategy("cold-first", "published", PLACEMENTS["popular"]),
}


def strategy(name: str) -> Strategy:
    """The strategy of that name."""
    if name not in STRATEGIES:
        raise ConfigError(f"There is no strategy {name!r}.{did_you_mean(name, STRATEGIES)}")
    return STRATEGIES[name]


def default_strategy(device: str) -> str:
    """The strategy of a run that names none: the fastest for its device."""
    return "plain" if device == "cpu" else "fast"


def strategy_of(config: Config) -> Strategy:
    """The strategy of a configuration, with the answers that it gives itself.

    Example:
        >>> config = Config(strategy="fae").with_settings(["placement.kind=lookahead"])
        >>> strategy_of(config).placement
        TierPolicy(keep=False, window=200, learning=0.0, refresh=0.0)
    """
    check_choices(config)
    chosen = strategy(config.strategy or default_strategy(config.device))
    if config.order.kind is not None:
        # The sums of a batch in two parts are made in another order.
        promise: Promise = "rounding" if config.order.kind == "split" else "bits"
        chosen = chosen._replace(ordering=config.order.kind, promise=promise)
    if config.skip.rule is not None:
        chosen = chosen._replace(skipping=config.skip.rule)
    if config.placement.kind is not None:
        chosen = chosen._replace(placement=PLACEMENTS[config.placement.kind])
    tier = chosen.placement
    if chosen.ordering == "split" and (tier is None or not tier.keep):
        raise ConfigError(
            "Batches are split into examples whose rows are kept in the fast tier and others, and "
            "with this placement no rows are kept. Set placement.kind to popular, learned or "
            "popular+lookahead, or order.kind to as-is."
        )
    if chosen.ordering == "apart" and tier is not None and tier.learning:
        raise ConfigError(
            "Hot and cold examples are separated by the rows that are popular from the start, and "
            "with this placement those are only learned on the way. Set placement.kind to "
            "popular, or order.kind to split."
        )
    return chosen
