"""The complete configuration of a run: defaults written out, for a new run and a resumed one."""

from __future__ import annotations

from slipstream import gpu
from slipstream.config import Config
from slipstream.config.section import check_choices
from slipstream.errors import ConfigError
from slipstream.order import InputOrder
from slipstream.pipeline.dense import learning_rate
from slipstream.pipeline.strategies import default_strategy, strategy_of
from slipstream.training.build import compiles
from slipstream.training.example_order import steps_of

# Keys that may change when a run is resumed. A data set is recognized wherever it is, and where
# rows live does not change the result. An order may change at the end of its segments.
_FREE = ("data", "threads", "checkpoint", "log", "epochs", "placement", "order")


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


def config_of_run(config: Config, order: InputOrder) -> Config:
    """The complete configuration with what also depends on the run, so that it repeats the run."""
    config = complete(config)
    split = strategy_of(config).ordering == "split"
    compiled = not split and compiles(config, steps_of(config, order))
    config = config.replace(compile="on" if compiled else "off")
    if strategy_of(config).skipping == "none":
        return config
    least, lag = gpu.least_skip_lag(config), gpu.skip_lag(config, len(order))
    if lag < least:
        raise ConfigError(
            f"skip.lag is {lag} but must be at least {least}, because batches are planned {least} "
            "steps ahead. In a new run omit it; to resume a run, keep its strategy, or set "
            "placement.window lower."
        )
    return config.replace(skip=config.skip.replace(lag=lag))


def config_to_resume(before: Config, config: Config, run: object) -> Config:
    """The complete configuration to resume a run with; an error names keys that may not change."""
    config = complete(config)
    if config.compile == "auto":
        config = config.replace(compile=before.compile)
    if config.skip.lag is None:
        config = config.replace(skip=config.skip.replace(lag=before.skip.lag))
    trains_alike = strategy_of(before).trains_as_many(strategy_of(config))
    free = (*_FREE, "strategy") if trains_alike else _FREE
    fixed = [key for key in before.differences(config) if key.partition(".")[0] not in free]
    if fixed:
        raise ConfigError(
            f"The run in {run} was started with another {', '.join(fixed)}, which cannot "
            "change when it is resumed. Omit it, or start another run."
        )
    return config
