"""The configuration of a run: one set of keys for files, `--set`, and Python."""

from slipstream.config.config import Config
from slipstream.config.sections import (
    DENSE_LR,
    ROW_LR,
    Checkpoint,
    Dense,
    EarlyStopping,
    Embedding,
    Evaluate,
    Init,
    Log,
    Model,
    Ordering,
    Placement,
    Schedule,
    Table,
)
from slipstream.config.skip import Skip

__all__ = [
    "DENSE_LR",
    "ROW_LR",
    "Checkpoint",
    "Config",
    "Dense",
    "EarlyStopping",
    "Embedding",
    "Evaluate",
    "Init",
    "Log",
    "Model",
    "Ordering",
    "Placement",
    "Schedule",
    "Skip",
    "Table",
]
