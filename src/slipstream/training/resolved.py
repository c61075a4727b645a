"""Decides what a configuration leaves open."""

from __future__ import annotations

from dataclasses import replace

from slipstream.config import Config
from slipstream.errors import ConfigError
from slipstream.gpu.planning import plan_ahead
from slipstream.order import InputOrder
from slipstream.pipeline.strategies import answers
from slipstream.training import build


def resolved(config: Config, order: InputOrder) -> Config:
    """The configuration with what it leaves open decided, so that it repeats the run."""
    ordering = answers(config).ordering
    compiled = ordering != "split" and build.compiles(config, build.steps_of(config, order))
    config = replace(config, compile="on" if compiled else "off")
    config = _with_skip_lag(config, len(order))
    if ordering != "apart":
        return config
    least = plan_ahead.least_ordering_lag(config, order)
    lag = config.ordering.lag or least
    if lag < least:
        raise ConfigError(
            f"ordering.lag is {lag}, but a rate must be decided {least} segments ahead: batches "
            "are read and planned by then. Leave it out, or make segments longer."
        )
    return replace(config, ordering=replace(config.ordering, lag=lag))


def _with_skip_lag(config: Config, inputs: int) -> Config:
    if answers(config).skipping == "none":
        return config
    least, lag = plan_ahead.least_skip_lag(config), plan_ahead.skip_lag(config, inputs)
    if lag < least:
        raise ConfigError(
            f"skip.lag is {lag}, but what is skipped must be decided {least} batches ahead: they "
            "are read and planned by then. In a new run leave it out; to go on with one, keep its "
            "strategy, or set placement.window lower."
        )
    return replace(config, skip=replace(config.skip, lag=lag))
