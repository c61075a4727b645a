"""Embedding tables as a module of a user's own model, stepped in a user's own loop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from slipstream.data.batch import Batch, ListBatch
from slipstream.data.schema import Schema
from slipstream.errors import ConfigError, DataError, did_you_mean
from slipstream.tables.columns import Columns, Ids, LookupIds
from slipstream.tables.lookups import Collect, Lookup, joined_gradient, joined_ids, outputs
from slipstream.tables.no_cache import NoCache
from slipstream.tables.optimizers import RowOptimizer, Sgd
from slipstream.tables.spec import Feature, Init, Layout, Storage, TableSpec
from slipstream.tables.state import TableField, fields_of
from slipstream.tables.tables import Embeddings

_ANCHOR = torch.empty(0, requires_grad=True)


class EmbeddingTables(nn.Module):  # type: ignore[misc]
    """Embedding tables that are looked up like a layer and updated by `step`.

    Rows are no parameters: no optimizer of PyTorch sees them, and neither `zero_grad` nor
    gradient clipping of the model around them touches their gradients. They stay in the memory of
    the host wherever the model goes; vectors come to the device of their ids.

    Args:
        tables: The tables.
        features: The columns and the tables they are looked up in; one single column for each
            table, of the same name, by default.
        optimizer: Updates the rows of tables that name no optimizer of their own.
        seed: Of the rows' first values.
        schema: Of the data set whose batches are looked up; see `for_schema`.

    Example:
        >>> import torch
        >>> tables = EmbeddingTables(
        ...     [TableSpec("user", rows=1000, dim=16), TableSpec("ad", rows=50, dim=16)],
        ...     optimizer=slipstream.RowwiseAdagrad(lr=0.05),
        ... )
        >>> vectors = tables({"user": torch.tensor([7, 999]), "ad": torch.tensor([3, 3])})
        >>> vectors["user"].shape
        torch.Size([2, 16])
        >>> (vectors["user"] * vectors["ad"]).sum().backward()
        >>> tables.step()
    """

    def __init__(
        self,
        tables: Sequence[TableSpec],
        features: Sequence[Feature] | None = None,
        *,
        optimizer: RowOptimizer | None = None,
        seed: int = 0,
        schema: Schema | None = None,
    ) -> None:
        super().__init__()
        if not tables:
            raise ConfigError("EmbeddingTables needs at least one table.")
        if features is None:
            features = [Feature(table.name, table.name) for table in tables]
        default = optimizer or Sgd()
        named = tuple(replace(table, optimizer=table.optimizer or default) for table in tables)
        self.layout = Layout(named, tuple(features))
        self._block = None if schema is None else tuple(column.name for column in schema.singles)
        self._build(seed)
        self.steps = 0

    @classmethod
    def for_schema(
        cls,
        schema: Schema,
        dim: int | Mapping[str, int] = 16,
        *,
        optimizer: RowOptimizer | None = None,
        storage: Storage = "fp32",
        init: Init | None = None,
        length: int | None = None,
        seed: int = 0,
    ) -> EmbeddingTables:
        """The tables of a data set, to look its batches up in.

        Args:
            schema: Of the data set.
            dim: Elements of a row: of all tables, or by table.
            optimizer: Updates the rows.
            storage: How rows are kept.
            init: What rows are before they are trained.
            length: Steps of the sequence columns, if there are any; of longer ones the last count.
            seed: Of the rows' first values.

        Example:
            >>> tables = EmbeddingTables.for_schema(dataset.schema, dim=8)
            >>> batch = next(slipstream.Loader(dataset.train, 256))
            >>> tables.stacked(batch).shape
            torch.Size([256, 7, 8])
        """
        names = [table.name for table in schema.tables]
        dims = dict.fromkeys(names, dim) if isinstance(dim, int) else dict(dim)
        for name in (*dims, *names):
            if name not in names:
                raise ConfigError(f"There is no table {name!r}.{did_you_mean(name, names)}")
            if name not in dims:
                raise ConfigError(f"dim says nothing of the table {name!r}.")
        if length is None and any(column.kind == "sequence" for column in schema.columns):
            raise ConfigError("The data set has sequences: say how long they are with length=.")
        tables = [
            TableSpec(t.name, t.rows, dims[t.name], optimizer, storage, init or Init())
            for t in schema.tables
        ]
        features = [
            Feature(c.name, c.table, c.kind, (length or 0) if c.kind == "sequence" else 0)
            for c in schema.columns
        ]
        return cls(tables, features, optimizer=optimizer, seed=seed, schema=schema)

    def forward(self, inputs: Batch | Ids) -> dict[str, Tensor]:
        """The vectors of each column, `[examples, dim]`; of sequences, `[examples, length, dim]`.

        In training mode, with gradients enabled, `step` applies what backward brings to them. The
        vectors are views of one tensor: `reshape` them rather than `view`.

        Args:
            inputs: For each column its ids, an integer tensor `[inputs]`, or for lists the pair
                (values, offsets) where list i is `values[offsets[i]:offsets[i + 1]]`. Or a batch
                of the data set whose schema the tables were made for.
        """
        tensors = self._look(inputs, stacked=False)
        numbers = [n for group in self.layout.groups for n in group.features]
        vectors = dict(zip((*numbers, *self.layout.sequences), tensors, strict=True))
        return {name: vectors[number] for number, name in enumerate(self._names)}

    def stacked(self, inputs: Batch | Ids) -> Tensor:
        """The vectors of all columns in one tensor, `[examples, columns, dim]`.

        Columns come in the order of the features. For tables of one dimension, without sequences.
        """
        groups = self.layout.groups
        if self.layout.sequences or len({group.dim for group in groups}) > 1:
            raise ConfigError(
                "Sequences, and vectors of several dimensions, do not stack: call the tables."
            )
        if len({group.storage == "fp64" for group in groups}) > 1:
            raise ConfigError("Vectors of float32 and float64 do not stack.")
        tensors = self._look(inputs, stacked=True)
        if len(tensors) == 1:
            return tensors[0]
        order = torch.tensor([n for group in groups for n in group.features]).argsort()
        return torch.cat(tensors, dim=1)[:, order.to(tensors[0].device)]

    def step(self, lr_factor: float = 1.0, grad_factor: float = 1.0) -> None:
        """Move the rows by the gradients of all lookups since the last step, and drop these.

        The gradients of a row are summed over its lookups, then applied once, as one step. Nothing
        happens, and no step is counted, where no gradient has come.

        Args:
            lr_factor: Of every table's learning rate: what a schedule changes.
            grad_factor: Of every gradient: 1 / scale where the loss was scaled.
        """
        for name, value in (("lr_factor", lr_factor), ("grad_factor", grad_factor)):
            if not (math.isfinite(value) and value >= 0):
                raise ConfigError(f"{name} is {value}; it must be a number of at least 0.")
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            processes = torch.distributed.get_world_size()
            if processes > 1:
                raise ConfigError(
                    f"{processes} processes train together, and each would update its own rows. "
                    "EmbeddingTables are for one process."
                )
        if not self._waiting:
            return
        ids, lists = joined_ids(self._waiting)
        plans, gradients = [], []
        for number, plan in enumerate(self._resident.plan(ids, lists, len(ids))):
            plan, gradient = joined_gradient(
                self._waiting, number, plan, self._embeddings.stores[number]
            )
            plans.append(plan)
            if gradient is not None and grad_factor != 1:
                gradient = gradient * grad_factor
            gradients.append(gradient)
        self.steps += 1
        self._embeddings.update_rows(plans, gradients, step=self.steps, factor=lr_factor)
        self.zero_grad()

    def zero_grad(self, set_to_none: bool = True) -> None:  # noqa: ARG002 - as in nn.Module
        """Drop the gradients that wait for a step. After `step` there are none."""
        for lookup in self._waiting:
            lookup.forget()
        self._waiting.clear()

    def weight(self, table: str, rows: slice | Tensor | None = None) -> Tensor:
        """A copy of a table's rows, or of some of them.

        Example:
            >>> tables = EmbeddingTables([TableSpec("ad", rows=50, dim=16)])
            >>> tables.weight("ad", torch.tensor([3, 7])).shape
            torch.Size([2, 16])
        """
        if table not in self._fields:
            raise ConfigError(f"There is no table {table!r}.{did_you_mean(table, self._fields)}")
        if isinstance(rows, Tensor):
            count = self.layout.table(table).rows
            wrong = rows[(rows < 0) | (rows >= count)]
            if rows.dim() != 1:
                raise DataError(f"Rows have the shape {list(rows.shape)}, not one dimension.")
            if len(wrong):
                raise DataError(
                    f"There is no row {wrong[0]} in table {table!r}: it has {count} rows, "
                    f"0 to {count - 1}."
                )
        return self._fields[table][0].read(rows)

    @property
    def bytes(self) -> int:
        """Memory of all rows and their optimizer state."""
        return sum(store.bytes for store in self._embeddings.stores)

    def __len__(self) -> int:
        return len(self.layout.tables)

    def extra_repr(self) -> str:
        """One line for each table."""
        lines = []
        for table in self.layout.tables:
            columns = ", ".join(f.column for f in self.layout.features if f.table == table.name)
            lines.append(
                f"{table.name}: {table.rows:,} rows of {table.dim} {table.storage}, "
                f"{table.optimizer}, columns {columns}"
            )
        return "\n".join([*lines, f"{self.bytes / 2**20:,.1f} MiB, {self.steps:,} steps"])

    def _build(self, seed: int | None) -> None:
        """What follows from the layout."""
        features = self.layout.features
        for table in self.layout.tables:
            if all(feature.table != table.name for feature in features):
                raise ConfigError(f"No column uses the embedding table {table.name!r}.")
        self._names = _names(features)
        self._columns = Columns(features, self._block)
        self._resident = NoCache(self.layout, self._columns.singles)
        self._embeddings = Embeddings(self.layout, seed=seed)
        self._waiting: list[Lookup] = []
        self._fields: dict[str, list[TableField]] = {}
        for field in fields_of(self._embeddings):
            self._fields.setdefault(field.table.name, []).append(field)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _look(self, inputs: Batch | Ids, stacked: bool) -> tuple[Tensor, ...]:
        request = self._columns.read(inputs)
        plan = self._resident.plan(request.ids, request.lists, request.n_valid, update=False)
        embedded = self._embeddings.lookup(plan, gradients=False)
        tensors = [tensor.to(request.device) for tensor in (*embedded.vectors, *embedded.sequences)]
        if not (self.training and torch.is_grad_enabled()):
            return outputs(self.layout, tensors, stacked)
        return Collect.apply(_ANCHOR, self._lookup(request, inputs), tensors, stacked)

    def _lookup(self, request: LookupIds, inputs: Batch | Ids) -> Lookup:
        """What is kept of a lookup: copies, since the user may fill the same tensors again."""
        n = request.n_valid
        ids = request.ids[:n].clone() if isinstance(inputs, Batch) else request.ids
        lists = {
            name: ListBatch(
                lists.values[: lists.offsets[n]].clone(), lists.offsets[: n + 1].clone()
            )
            for name, lists in request.lists.items()
        }
        return Lookup(self.layout, ids, lists, self._waiting)

    def _save_to_state_dict(
        self, destination: dict[str, Tensor], prefix: str, keep_vars: bool
    ) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for field in self._all_fields():
            destination[prefix + field.key] = field.read()
        destination[prefix + "steps"] = torch.tensor(self.steps)

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Tensor],
        prefix: str,
        local_metadata: object,  # noqa: ARG002 - the arguments are PyTorch's
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        fields = {prefix + field.key: field for field in self._all_fields()}
        wrong = [why for key, field in fields.items() if (why := field.misfit(key, state_dict))]
        error_msgs.extend(wrong)
        known = [*fields, prefix + "steps"]
        missing_keys.extend(key for key in known if key not in state_dict)
        if strict:
            own_keys = (key for key in state_dict if key.startswith(prefix))
            unexpected_keys.extend(key for key in own_keys if key not in known)
        if wrong:
            return
        for key, field in fields.items():
            if key in state_dict:
                field.write(state_dict[key])
        self.steps = int(state_dict.get(prefix + "steps", self.steps))
        self.zero_grad()  # gradients of other rows

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and deepcopy: everything but gradients that wait for a step."""
        built = ("_embeddings", "_resident", "_columns", "_names", "_waiting", "_fields")
        state = {name: value for name, value in self.__dict__.items() if name not in built}
        return {**state, "records": [store.records for store in self._embeddings.stores]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        records = state.pop("records")
        super().__setstate__(state)
        self._build(seed=None)
        for store, values in zip(self._embeddings.stores, records, strict=True):
            store.records[:] = values

    def _all_fields(self) -> list[TableField]:
        return [field for fields in self._fields.values() for field in fields]


def _names(features: Sequence[Feature]) -> list[str]:
    """What the vectors of each feature are called: its column, with the table if in several."""
    columns = [feature.column for feature in features]
    names = [
        f.column if columns.count(f.column) == 1 else f"{f.column}/{f.table}" for f in features
    ]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"Two features would both be called {name!r}.")
    return names
