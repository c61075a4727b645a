"""What a lookup would give a model, without tables: random vectors, and schemas to have them of."""

from functools import partial

import torch
from hypothesis import strategies as st
from torch import nn

from slipstream import Column, Schema, Table
from slipstream.tables.spec import Embedded, Layout

# One of each: single, shared table, pooled lists, a history with its target, dense values.
EVERYTHING = Schema(
    tables=(Table("user", 30, 0), Table("item", 50, 0), Table("tag", 7, 0)),
    columns=(
        Column("user", "user"),
        Column("items", "item", "sequence"),
        Column("item", "item"),
        Column("tags", "tag", "mean"),
        Column("more tags", "tag", "sum"),
    ),
    dense=("price", "age"),
)
LENGTHS = {"items": 6}


def random_embedded(layout: Layout, batch: int, seed: int = 0, dtype=torch.float64) -> Embedded:
    """Random vectors for every feature, sequences with zeros after their steps; all are leaves."""
    generator = torch.Generator().manual_seed(seed)
    draw = {"generator": generator, "dtype": dtype}
    vectors = [torch.randn(batch, len(g.features), g.dim, **draw) for g in layout.groups]
    sequences, lengths = [], []
    for number in layout.sequences:
        feature = layout.features[number]
        length = torch.randint(0, feature.length + 1, (batch,), generator=generator)
        steps = torch.randn(batch, feature.length, layout.table(feature.table).dim, **draw)
        steps[torch.arange(feature.length) >= length[:, None]] = 0
        sequences.append(steps)
        lengths.append(length)
    leaves = [[leaf.requires_grad_() for leaf in group] for group in (vectors, sequences)]
    return Embedded(tuple(leaves[0]), tuple(leaves[1]), tuple(lengths))


def of_column(layout: Layout, embedded: Embedded, column: str, table: str | None = None):
    """The vectors of one column, found by name."""
    for number, feature in enumerate(layout.features):
        if feature.column == column and table in (None, feature.table):
            if feature.kind == "sequence":
                return embedded.sequences[layout.sequences.index(number)]
            group, place = layout.place(number)
            return embedded.vectors[group][:, place]
    raise KeyError(column)


def dense_values(schema: Schema, batch: int, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, len(schema.dense), generator=generator, dtype=torch.float64)


def layer_by_layer(values: torch.Tensor, layers: nn.Sequential) -> torch.Tensor:
    """An MLP written out: products, sums, and what follows each."""
    for layer in layers:
        if isinstance(layer, nn.Linear):
            values = values @ layer.weight.T + layer.bias
        elif isinstance(layer, nn.ReLU):
            values = values.clamp(min=0)
        else:
            values = 1 / (1 + torch.exp(-values))
    return values


def assert_same_gradients(result, plain, leaves) -> None:
    """Both results and their gradients with respect to all leaves agree."""
    torch.testing.assert_close(result, plain, rtol=1e-12, atol=1e-12)
    factors = torch.linspace(-1, 2, len(result), dtype=result.dtype)
    gradients = torch.autograd.grad((result * factors).sum(), leaves)
    other = torch.autograd.grad((plain * factors).sum(), leaves)
    for left, right in zip(gradients, other, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-12)


def assert_same_as(model: nn.Module, formula) -> None:
    """A model computes what `formula(dense, vectors_of)` does, and so do its gradients."""
    dense, embedded = dense_values(EVERYTHING, 4), random_embedded(model.layout, 4)
    plain = formula(dense, partial(of_column, model.layout, embedded))
    leaves = [*embedded.vectors, *model.parameters()]
    assert_same_gradients(model(dense, embedded), plain, leaves)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """Any few columns of any kind, sharing tables or not, with or without dense values."""
    count = draw(st.integers(1, 3))
    tables = tuple(Table(f"t.{n}", draw(st.integers(1, 20)), 0) for n in range(count))
    used = [*range(count), *draw(st.lists(st.integers(0, count - 1), max_size=3))]
    kinds = st.sampled_from(["single", "sum", "mean", "sequence"])
    columns = tuple(Column(f"c.{n}", f"t.{table}", draw(kinds)) for n, table in enumerate(used))
    return Schema(tables, columns, tuple(f"d.{n}" for n in range(draw(st.integers(0, 2)))))
