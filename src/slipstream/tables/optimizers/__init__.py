"""The row optimizers: one file for each, and a line here."""

from __future__ import annotations

from typing import Any

from slipstream.errors import ConfigError, did_you_mean
from slipstream.tables.optimizers.adagrad import Adagrad
from slipstream.tables.optimizers.adam import Adam
from slipstream.tables.optimizers.optimizer import RowOptimizer, State
from slipstream.tables.optimizers.rowwise_adagrad import RowwiseAdagrad
from slipstream.tables.optimizers.sgd import Sgd

__all__ = [
    "OPTIMIZERS",
    "Adagrad",
    "Adam",
    "RowOptimizer",
    "RowwiseAdagrad",
    "Sgd",
    "State",
    "option_names",
    "row_optimizer",
]

OPTIMIZERS: dict[str, type[RowOptimizer]] = {
    "sgd": Sgd,
    "adagrad": Adagrad,
    "rowwise_adagrad": RowwiseAdagrad,
    "adam": Adam,
}


def row_optimizer(name: str, **options: Any) -> RowOptimizer:
    """The optimizer of that name.

    Example:
        >>> row_optimizer("sgd", lr=0.1)
        Sgd(lr=0.1, weight_decay=0.0)
    """
    known = option_names(name)
    for option in options:
        if option not in ("lr", *known):
            raise ConfigError(f"{name} has no option {option!r}.{did_you_mean(option, known)}")
    return OPTIMIZERS[name](**options)


def option_names(name: str) -> list[str]:
    """The options of an optimizer, besides its learning rate."""
    if name not in OPTIMIZERS:
        raise ConfigError(f"There is no row optimizer {name!r}.{did_you_mean(name, OPTIMIZERS)}")
    return [option for option in OPTIMIZERS[name]().options() if option != "lr"]
