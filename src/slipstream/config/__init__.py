"""The configuration of a run: one set of keys for files, `--set`, and Python."""

from slipstream.config.config import Config
from slipstream.config.sections import (
    CheckpointSettings,
    DenseSettings,
    EarlyStoppingSettings,
    EmbeddingSettings,
    EvaluateSettings,
    LogSettings,
    ModelSettings,
    OrderSettings,
    PlacementSettings,
    ScheduleSettings,
    TableSettings,
)
from slipstream.config.skip import SkipSettings

__all__ = [
    "CheckpointSettings",
    "Config",
    "DenseSettings",
    "EarlyStoppingSettings",
    "EmbeddingSettings",
    "EvaluateSettings",
    "LogSettings",
    "ModelSettings",
    "OrderSettings",
    "PlacementSettings",
    "ScheduleSettings",
    "SkipSettings",
    "TableSettings",
]
