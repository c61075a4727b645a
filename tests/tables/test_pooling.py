"""Pooled lists against PyTorch, and a pooling that was added in one file."""

import pytest
import torch

from slipstream import Column, EmbeddingTables, Feature, ListBatch, Schema, Sgd, Table, TableSpec
from slipstream.data import schema
from slipstream.errors import ConfigError, DataError
from slipstream.tables.no_cache import NoCache
from slipstream.tables.pooling import POOLINGS, divided_sum, pool_lists, register_pooling
from slipstream.tables.tables import Embeddings

VALUES = torch.tensor([3, 1, 1, 5, 2, 4, 4, 0])
OFFSETS = torch.tensor([0, 2, 2, 3, 7, 8])  # the second list is empty


def bags(kind, weight):
    pooled = torch.nn.EmbeddingBag(*weight.shape, mode=kind, include_last_offset=True)
    pooled = pooled.to(weight.dtype)
    pooled.weight.data.copy_(weight)
    return pooled


def tables_of(kind, storage="fp64", lr=0.1):
    spec = TableSpec("item", 6, 4, Sgd(lr), storage)
    return EmbeddingTables([spec], [Feature("seen", "item", kind), Feature("item", "item")])


def rows_with_ties():
    rows = torch.randint(-2, 3, (6, 4), generator=torch.Generator().manual_seed(0)).double()
    rows[4] = rows[2]
    return rows


@pytest.mark.parametrize("kind", ["sum", "mean", "max"])
def test_vectors_and_gradients_are_those_of_embedding_bag_also_where_rows_tie(kind):
    tables, rows = tables_of(kind), rows_with_ties()
    tables.load_state_dict({"item.weight": rows}, strict=False)
    plain = bags(kind, rows)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    factors = torch.arange(1.0, 21).reshape(5, 4).double()
    for _ in range(3):
        ours = tables({"seen": (VALUES, OFFSETS), "item": torch.arange(5)})["seen"]
        theirs = plain(VALUES, OFFSETS)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
        (ours * factors).sum().backward()
        optimizer.zero_grad()
        (theirs * factors).sum().backward()
        tables.step()
        optimizer.step()
        torch.testing.assert_close(tables.weight("item"), plain.weight, rtol=0, atol=1e-12)


def test_gradients_of_max_accumulate_over_lookups_as_over_one_batch():
    tables, rows = tables_of("max"), rows_with_ties()
    tables.load_state_dict({"item.weight": rows}, strict=False)
    plain = bags("max", rows)
    for seed in range(2):
        factors = torch.randn(5, 4, generator=torch.Generator().manual_seed(seed)).double()
        vectors = tables({"seen": ((VALUES + seed) % 6, OFFSETS), "item": torch.arange(5)})
        (vectors["seen"] * factors).sum().backward()
        if seed:
            vectors["item"].sum().backward()
        (plain((VALUES + seed) % 6, OFFSETS) * factors).sum().backward()
    tables.step()
    wanted = rows - 0.1 * plain.weight.grad
    wanted[:5] -= 0.1
    torch.testing.assert_close(tables.weight("item"), wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("storage", ["fp32", "bf16", "split-bf16"])
def test_halves_are_pooled_as_they_are_read(storage):
    tables = tables_of("max", storage)
    seen = tables({"seen": (VALUES, OFFSETS), "item": VALUES[:5]})["seen"]
    store = tables._embeddings.stores[0]
    rows = store.look(VALUES)
    assert seen.equal(pool_lists(POOLINGS["max"], rows, OFFSETS))
    assert seen[1].eq(0).all(), "an empty list"
    assert seen[3].equal(rows[3:7].amax(0))


def test_a_new_pooling_needs_no_more_than_a_name_and_a_function(monkeypatch):
    monkeypatch.setattr(schema, "POOLING_NAMES", [*schema.POOLING_NAMES])
    monkeypatch.setitem(POOLINGS, "sqrtn", None)
    with pytest.raises(ConfigError, match="Column 'seen' is of kind 'sqrtn'"):
        tables_of("sqrtn")
    register_pooling("sqrtn", divided_sum(torch.sqrt))
    tables, plain = tables_of("sqrtn"), tables_of("mean")
    ids = {"seen": (VALUES, OFFSETS), "item": torch.arange(5)}
    lengths = OFFSETS.diff().clamp(min=1).unsqueeze(1)
    torch.testing.assert_close(tables(ids)["seen"], plain(ids)["seen"] * lengths.sqrt())
    assert Schema((Table("t", 2, 0),), (Column("c", "t", "sqrtn"),)).columns[0].kind == "sqrtn"


def test_an_unknown_kind_of_column_is_an_error_that_lists_the_poolings():
    with pytest.raises(DataError, match="choose one of single, sum, mean, max, sequence"):
        Schema((Table("t", 2, 0),), (Column("c", "t", "median"),))


def test_reference_and_kernels_agree_for_sequences_beside_max():
    features = (
        Feature("a", "t", "max"),
        Feature("b", "t", "sequence", 2),
        Feature("c", "t", "max"),
    )
    tables = EmbeddingTables([TableSpec("t", 6, 4, Sgd(0.1), "fp64")], features)
    layout, lists = tables.layout, {}
    for number, name in enumerate("abc"):
        lists[name] = ListBatch((VALUES + number) % 6, OFFSETS)
    for kernels in ("cpu", "reference"):
        embeddings = Embeddings(layout, kernels=kernels)
        groups = NoCache(layout, []).plan(torch.empty(5, 0, dtype=torch.int64), lists, 5)
        embedded = embeddings.lookup(groups)
        (embedded.vectors[0].square().sum() + embedded.sequences[0].sum()).backward()
        embeddings.update(groups, embedded, step=1)
        rows = embeddings.stores[0].look(torch.arange(6))
        if kernels == "cpu":
            ours = rows
    torch.testing.assert_close(ours, rows, rtol=0, atol=1e-12)
