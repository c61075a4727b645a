"""Checkpoints: saved in the background from a consistent cut, whole or not at all."""

from slipstream.training.checkpoint.checkpoints import Checkpoints
from slipstream.training.checkpoint.digest import weights_digest
from slipstream.training.checkpoint.restore import Found, dense_of, load, newest, rows_of

__all__ = ["Checkpoints", "Found", "dense_of", "load", "newest", "rows_of", "weights_digest"]
