"""The configuration of a run: one set of keys for files, `--set`, and Python."""

from slipstream.config.config import Config
from slipstream.config.sections import (
    Checkpoint,
    Dense,
    EarlyStopping,
    Embedding,
    Evaluate,
    Log,
    Model,
    Order,
    Placement,
    Schedule,
    Table,
)
from slipstream.config.skip import Skip

__all__ = [
    "Checkpoint",
    "Config",
    "Dense",
    "EarlyStopping",
    "Embedding",
    "Evaluate",
    "Log",
    "Model",
    "Order",
    "Placement",
    "Schedule",
    "Skip",
    "Table",
]
