"""Stores with any rows in them, and the layouts they come from."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from slipstream.tables.optimizers import OPTIMIZERS
from slipstream.tables.spec import Layout, TableSpec
from slipstream.tables.store import RowStore

STORAGES = ("fp32", "fp64", "bf16", "split-bf16")


def stores_of(*tables: TableSpec) -> list[RowStore]:
    return [RowStore(group) for group in Layout(tables, ()).groups]


def fill(stores: list[RowStore], seed: int) -> None:
    """Any bits, also those of NaN: a checkpoint has no opinion about values."""
    random = np.random.default_rng(seed)
    for store in stores:
        for values in store.views.values():
            values.view(f"<u{values.itemsize}")[:] = random.integers(
                0, 2 ** (8 * values.itemsize), values.shape, dtype=f"<u{values.itemsize}"
            )


def fields(stores: list[RowStore]) -> dict[tuple[str, str], bytes]:
    """The bytes of every field of every table."""
    return {
        (table.name, name): values[store.rows_of(table.name)].tobytes()
        for store in stores
        for table in store.group.tables
        for name, values in store.views.items()
    }


@st.composite
def tables(draw: st.DrawFn) -> list[TableSpec]:
    """One to five tables of any storage and optimizer."""
    kinds = list(OPTIMIZERS.values())
    return [
        TableSpec(
            f"table {number}",
            rows=draw(st.integers(1, 60)),
            dim=draw(st.sampled_from([1, 2, 3, 8])),
            optimizer=draw(st.sampled_from(kinds))(),
            storage=draw(st.sampled_from(STORAGES)),
        )
        for number in range(draw(st.integers(1, 5)))
    ]
