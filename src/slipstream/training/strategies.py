"""A strategy is a choice of three answers: a line in a table."""

from __future__ import annotations

from typing import NamedTuple

from slipstream.errors import ConfigError, did_you_mean


class Strategy(NamedTuple):
    """In what order inputs come, which are trained, and where rows live when their batch comes."""

    ordering: str
    skipping: str
    placement: str


STRATEGIES = {
    "plain": Strategy("as is", "all", "resident"),
}


def strategy(name: str) -> Strategy:
    """The strategy of that name."""
    if name not in STRATEGIES:
        raise ConfigError(f"There is no strategy {name!r}.{did_you_mean(name, STRATEGIES)}")
    return STRATEGIES[name]
