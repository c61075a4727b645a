"""What the embedding tables of a model are, and which of them stand together in one array."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple, get_args

from torch import Tensor

from slipstream.data.schema import Kind, list_kinds
from slipstream.errors import ConfigError, did_you_mean
from slipstream.tables.optimizers import RowOptimizer, Sgd

Storage = Literal["fp32", "fp64", "bf16", "split-bf16"]
STORAGES = get_args(Storage)


@dataclass(frozen=True)
class Init:
    """What a row is before it is trained.

    Args:
        kind: uniform, normal or zeros.
        scale: The bound of the uniform values or the deviation of the normal ones; None is
            `1 / sqrt(rows)` of the table.
    """

    kind: Literal["uniform", "normal", "zeros"] = "uniform"
    scale: float | None = None

    def __post_init__(self) -> None:
        kinds = ("uniform", "normal", "zeros")
        if self.kind not in kinds:
            raise ConfigError(f"There is no init {self.kind!r}.{did_you_mean(self.kind, kinds)}")
        if self.scale is not None and not 0 <= self.scale < float("inf"):
            raise ConfigError(f"The scale of init is {self.scale}; it must be at least 0.")


@dataclass(frozen=True)
class TableSpec:
    """One embedding table.

    Args:
        name: The table's name.
        rows: Its rows; every id is below it.
        dim: Elements of a row.
        optimizer: Updates its rows; None takes that of the model or module that has the
            tables, or plain SGD.
        storage: How a row is kept: float32, bfloat16, or float32 in two halves of 16 bits of
            which the forward pass reads the upper one. float64 is for checks.
        init: What a row is before it is trained.
    """

    name: str
    rows: int
    dim: int
    optimizer: RowOptimizer | None = None
    storage: Storage = "fp32"
    init: Init = field(default_factory=Init)

    def __post_init__(self) -> None:
        for size, value in (("rows", self.rows), ("dim", self.dim)):
            try:  # NumPy's numbers would overflow when tables are put together
                object.__setattr__(self, size, operator.index(value))
            except TypeError:
                raise ConfigError(
                    f"Table {self.name!r} has {size} {value!r}; it must be a whole number."
                ) from None
            if value < 1:
                raise ConfigError(f"Table {self.name!r} has {size} {value}; at least 1 is needed.")
        if self.optimizer is not None and not isinstance(self.optimizer, RowOptimizer):
            raise ConfigError(
                f"Table {self.name!r} has the optimizer {self.optimizer!r}; it must be a row "
                "optimizer of slipstream, such as slipstream.Adagrad()."
            )
        if self.storage not in get_args(Storage):
            raise ConfigError(
                f"Table {self.name!r} has storage {self.storage!r}."
                f"{did_you_mean(self.storage, get_args(Storage))}"
            )

    @property
    def chosen_optimizer(self) -> RowOptimizer:
        """The optimizer, plain SGD where none was chosen."""
        return self.optimizer or Sgd()


@dataclass(frozen=True)
class Feature:
    """A column of the data set looked up in a table.

    Args:
        column: The column's name.
        table: The embedding table's name.
        kind: single, sequence (kept step by step), or the pooling of a list: sum, mean, max.
        length: For a sequence: its steps; shorter ones are padded with zeros, of longer ones the
            last steps count.
    """

    column: str
    table: str
    kind: Kind = "single"
    length: int = 0


class InSlots(NamedTuple):
    """Where the rows of a group whose features are all single are in the memory of a device."""

    records: Tensor  # what is in the slots, int32 `[slots, words]`
    slots: Tensor  # the slot of each row, int32 `[features, capacity]`; -1 stands for zeros
    span: Tensor  # int32, the first input that counts and the one after the last; others have zeros
    shape: tuple[int, ...]  # what kernels must know of a record


class Embedded(NamedTuple):
    """What a lookup gives the model."""

    # For each group of the layout its features, `[capacity, features, dim]`.
    vectors: tuple[Tensor, ...]
    # For each sequence feature of the layout its steps, `[capacity, length, dim]`.
    sequences: tuple[Tensor, ...] = ()
    # For each sequence feature how many of its steps there are, int64 `[capacity]`.
    lengths: tuple[Tensor, ...] = ()
    # For each group where its rows are, if the model reads them by itself. Its vectors then only
    # collect gradients: what they hold is no row.
    in_slots: tuple[InSlots, ...] = ()


@dataclass(frozen=True)
class Group:
    """Tables of one dimension, storage and optimizer, one after the other in one array of rows."""

    tables: tuple[TableSpec, ...]  # the tables
    starts: tuple[int, ...]  # the row at which each table begins, and the number of all rows
    features: tuple[int, ...]  # the single and pooled features, by their number in the layout
    sequences: tuple[int, ...]  # the sequence features, by their number in the layout

    @property
    def dim(self) -> int:
        """Elements of a row."""
        return self.tables[0].dim

    @property
    def rows(self) -> int:
        """Rows of all its tables."""
        return self.starts[-1]

    @property
    def optimizer(self) -> RowOptimizer:
        """The optimizer that updates its rows."""
        return self.tables[0].chosen_optimizer

    @property
    def storage(self) -> Storage:
        """How its rows are kept."""
        return self.tables[0].storage

    def start(self, table: str) -> int:
        """The row at which a table begins."""
        return self.starts[[spec.name for spec in self.tables].index(table)]


@dataclass(frozen=True)
class Layout:
    """Tables and features, and the groups they fall into.

    Example:
        >>> layout = Layout(
        ...     (TableSpec("user", 10, 4), TableSpec("ad", 5, 4), TableSpec("ad/linear", 5, 1)),
        ...     (Feature("user", "user"), Feature("ad", "ad"), Feature("ad", "ad/linear")),
        ... )
        >>> [(group.dim, group.starts, group.features) for group in layout.groups]
        [(4, (0, 10, 15), (0, 1)), (1, (0, 5), (2,))]
        >>> layout.place(2)
        (1, 0)
    """

    tables: tuple[TableSpec, ...]
    features: tuple[Feature, ...]

    def __post_init__(self) -> None:
        names = [table.name for table in self.tables]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"Two embedding tables have the name {name!r}.")
        for feature in self.features:
            if feature.table not in names:
                raise ConfigError(
                    f"Column {feature.column!r} uses the embedding table {feature.table!r}, "
                    f"which is not defined.{did_you_mean(feature.table, names)}"
                )
            if feature.kind not in ("single", *list_kinds()):
                raise ConfigError(
                    f"Column {feature.column!r} is of kind {feature.kind!r}."
                    f"{did_you_mean(feature.kind, ('single', *list_kinds()))}"
                )
            if feature.kind == "sequence" and feature.length < 1:
                raise ConfigError(f"The sequence {feature.column!r} needs a length of at least 1.")
            if feature.kind != "sequence" and feature.length:
                raise ConfigError(
                    f"Column {feature.column!r} is of kind {feature.kind!r} and has the length "
                    f"{feature.length}; only sequences have one: leave it out."
                )

    def table(self, name: str) -> TableSpec:
        """The table of that name."""
        return next(table for table in self.tables if table.name == name)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The tables by (dimension, storage, optimizer), in the order of their first table."""
        alike: dict[object, list[TableSpec]] = {}
        for table in self.tables:
            key = (table.dim, table.storage, table.chosen_optimizer)
            alike.setdefault(key, []).append(table)
        return tuple(self._group(tables) for tables in alike.values())

    def place(self, feature: int) -> tuple[int, int]:
        """The group of a feature, and its place among the features or sequences of that group."""
        for number, group in enumerate(self.groups):
            for members in (group.features, group.sequences):
                if feature in members:
                    return number, members.index(feature)
        raise ConfigError(f"The layout has no feature {feature}.")

    @property
    def sequences(self) -> tuple[int, ...]:
        """The sequence features, by number, in the order in which lookups give them."""
        return tuple(n for n, feature in enumerate(self.features) if feature.kind == "sequence")

    def _group(self, tables: Sequence[TableSpec]) -> Group:
        starts = [0]
        for table in tables:
            starts.append(starts[-1] + table.rows)
        names = {table.name for table in tables}
        own = [n for n, feature in enumerate(self.features) if feature.table in names]
        return Group(
            tuple(tables),
            tuple(starts),
            tuple(n for n in own if self.features[n].kind != "sequence"),
            tuple(n for n in own if self.features[n].kind == "sequence"),
        )
