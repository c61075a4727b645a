"""The rows of tables and their optimizer state as tensors, by table and name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from slipstream.tables.spec import TableSpec
from slipstream.tables.store import RowStore, encoded
from slipstream.tables.tables import Embeddings


class TableField(NamedTuple):
    """One thing that is kept of every row of a table: `weight`, or a state of the optimizer."""

    store: RowStore
    table: TableSpec
    name: str

    @property
    def key(self) -> str:
        """What it is called in a state dict."""
        return f"{self.table.name}.{self.name}"

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and elements of each."""
        state = self.store.group.optimizer.state_sizes(self.table.dim)
        return self.table.rows, state.get(self.name, self.table.dim)

    def read(self, rows: slice | Tensor | None = None) -> Tensor:
        """A copy; halves of a float32 are put together again."""
        records = self.store.records[self.store.rows_of(self.table.name)]
        if isinstance(rows, Tensor):
            records = records[rows.cpu().numpy()]
        elif rows is not None:
            records = records[rows]
        fields = self.store.record.split(records)
        if self.name != "weight":
            return torch.from_numpy(fields[self.name].copy())
        if self.store.group.storage == "bf16":
            return torch.from_numpy(fields["weight"].copy().view(np.int16)).view(torch.bfloat16)
        return self.store.weights({k: array.copy() for k, array in fields.items()}, full=True)

    def misfit(self, key: str, state: Mapping[str, Tensor]) -> str | None:
        """Why what is under a key cannot be written here, if so."""
        if key not in state or state[key].shape == self.shape:
            return None
        return (
            f"{key} has the shape {list(state[key].shape)}, but the table {self.table.name!r} "
            f"with {self.table.optimizer} needs {list(self.shape)}."
        )

    def write(self, values: Tensor) -> None:
        """Replace all of it."""
        rows = self.store.rows_of(self.table.name)
        double = self.store.group.storage == "fp64"
        values = values.detach().cpu().to(torch.float64 if double else torch.float32)
        arrays: Mapping[str, object] = {self.name: values.numpy()}
        if self.name == "weight":
            arrays = encoded(self.store.group.storage, values)
        for name, array in arrays.items():
            self.store.views[name][rows] = array


def fields_of(embeddings: Embeddings) -> Iterator[TableField]:
    """Everything that is kept, in the order of the tables."""
    stores = {table.name: store for store in embeddings.stores for table in store.group.tables}
    for table in embeddings.layout.tables:
        store = stores[table.name]
        for name in ("weight", *store.group.optimizer.state_sizes(table.dim)):
            yield TableField(store, table, name)
