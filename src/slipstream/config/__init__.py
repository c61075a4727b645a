"""The configuration of a run: one set of keys for files, `--set`, and Python."""

from slipstream.config.config import Config

__all__ = ["Config"]
