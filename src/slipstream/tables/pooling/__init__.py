"""The poolings: one file for each, and its name in `POOLING_NAMES` of `data/schema.py`."""

from __future__ import annotations

from importlib import import_module

from slipstream.data import schema
from slipstream.tables.pooling.pooling import Pooling, divided_sum, pool_lists, row_gradients

__all__ = ["POOLINGS", "Pooling", "divided_sum", "pool_lists", "register_pooling", "row_gradients"]

POOLINGS: dict[str, Pooling] = {
    name: import_module(f"{__name__}.{name}").POOLING for name in schema.POOLING_NAMES
}


def register_pooling(name: str, pooling: Pooling) -> None:
    """Make a pooling known as a kind of column, as a file and its name in the schema do."""
    if name not in schema.POOLING_NAMES:
        schema.POOLING_NAMES.append(name)
    POOLINGS[name] = pooling
