"""Decides what a configuration leaves open."""

from __future__ import annotations

from slipstream import gpu
from slipstream.config import Config
from slipstream.config.section import check_choices
from slipstream.errors import ConfigError
from slipstream.order import InputOrder
from slipstream.pipeline.dense import learning_rate
from slipstream.pipeline.strategies import default_strategy, strategy_of
from slipstream.training import build


def resolved(config: Config, order: InputOrder) -> Config:
    """The configuration with what it leaves open decided, so that it repeats the run."""
    config = complete(config)
    split = strategy_of(config).ordering == "split"
    compiled = not split and build.compiles(config, build.steps_of(config, order))
    config = config.replace(compile="on" if compiled else "off")
    return _with_skip_lag(config, len(order))


def complete(config: Config) -> Config:
    """The configuration with the defaults that depend on other keys written out.

    Example:
        >>> config = complete(Config(device="cuda", dense={"optimizer": "adam"}))
        >>> config.strategy, config.dense.lr, config.embedding.lr
        ('fast', 0.001, 0.1)
    """
    check_choices(config)
    everywhere, _ = config.embedding.settings()
    return config.replace(
        strategy=config.strategy or default_strategy(config.device),
        embedding=config.embedding.replace(lr=everywhere["optimizer"].lr),
        dense=config.dense.replace(lr=learning_rate(config.dense)),
    )


def _with_skip_lag(config: Config, inputs: int) -> Config:
    if strategy_of(config).skipping == "none":
        return config
    least, lag = gpu.least_skip_lag(config), gpu.skip_lag(config, inputs)
    if lag < least:
        raise ConfigError(
            f"skip.lag is {lag}, but what is skipped must be decided {least} batches ahead: they "
            "are read and planned by then. In a new run leave it out; to go on with one, keep its "
            "strategy, or set placement.window lower."
        )
    return config.replace(skip=config.skip.replace(lag=lag))
