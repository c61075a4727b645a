"""Checkpoints: saved in the background and either whole or not there at all."""

from slipstream.training.checkpoint.checkpoints import Checkpoints
from slipstream.training.checkpoint.digest import weights_digest
from slipstream.training.checkpoint.restore import (
    WholeCheckpoint,
    dense_of,
    load,
    newest,
    rows_of,
)

__all__ = [
    "Checkpoints",
    "WholeCheckpoint",
    "dense_of",
    "load",
    "newest",
    "rows_of",
    "weights_digest",
]
