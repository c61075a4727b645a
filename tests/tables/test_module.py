import copy
import gc
import warnings
from itertools import pairwise

import numpy as np
import pytest
import torch
from tables.every_table import FEATURES, TABLES, ids_of, loss_of, made
from torch.nn import functional

import slipstream
from slipstream import EmbeddingTables, Feature, TableSpec
from slipstream.errors import DataError
from slipstream.tables.spec import Layout

TORCH = {
    "sgd": (slipstream.Sgd(0.1), lambda p: torch.optim.SGD(p, lr=0.1)),
    "adagrad": (slipstream.Adagrad(0.1), lambda p: torch.optim.Adagrad(p, lr=0.1)),
    "adam": (slipstream.Adam(0.01), lambda p: torch.optim.SparseAdam(p, lr=0.01)),
}


class Plain(torch.nn.Module):
    """The same in PyTorch."""

    def __init__(self, tables):
        super().__init__()
        self.bags = torch.nn.ModuleDict()
        for name, rows, dim in TABLES:
            bag = torch.nn.EmbeddingBag(rows, dim, sparse=True, dtype=torch.float64)
            bag.weight.data.copy_(tables.weight(name))
            self.bags[name] = bag

    def forward(self, ids):
        vectors = {}
        for feature in FEATURES:
            weight, given = self.bags[feature.table].weight, ids[feature.column]
            if feature.kind == "single":
                vectors[feature.column] = functional.embedding(given, weight, sparse=True)
            elif feature.kind == "sequence":
                values, offsets = given
                rows = []
                for first, last in pairwise(offsets.tolist()):
                    kept = values[max(first, last - feature.length) : last]
                    row = functional.embedding(kept, weight, sparse=True)
                    rows.append(functional.pad(row, (0, 0, 0, feature.length - len(kept))))
                vectors[feature.column] = torch.stack(rows)
            else:
                vectors[feature.column] = functional.embedding_bag(
                    given[0],
                    weight,
                    given[1],
                    mode=feature.kind,
                    sparse=True,
                    include_last_offset=True,
                )
        return vectors


@pytest.mark.parametrize("lookups", [1, 3])
@pytest.mark.parametrize("name", TORCH)
def test_training_equals_embedding_bags_of_torch_with_accumulation(name, lookups):
    optimizer, torch_optimizer = TORCH[name]
    tables = made(optimizer)
    plain = Plain(tables)
    other = torch_optimizer(plain.parameters())
    for step in range(6):
        other.zero_grad()
        for part in range(lookups):
            seed = 10 * step + part
            ids = ids_of(seed, n=part + 5)
            vectors, wanted = tables(ids), plain(ids)
            assert list(vectors) == [feature.column for feature in FEATURES]
            for column, one in vectors.items():
                torch.testing.assert_close(one, wanted[column], rtol=0, atol=1e-12)
            loss_of(vectors, seed).backward()
            loss_of(wanted, seed).backward()
        for bag in plain.bags.values():
            bag.weight.grad = bag.weight.grad.coalesce()
        other.step()
        tables.step()
    assert tables.steps == 6
    for table, bag in plain.bags.items():
        torch.testing.assert_close(tables.weight(table), bag.weight.data, rtol=0, atol=1e-12)


@pytest.mark.parametrize("optimizer", [one for one, _ in TORCH.values()])
def test_rows_of_columns_that_no_gradient_came_to_stay_as_they_are(optimizer):
    specs = [TableSpec(name, 5, 2) for name in "ab"]
    features = [Feature("a", "a"), Feature("b", "b"), Feature("l", "b", "sequence", 2)]
    tables = EmbeddingTables(specs, features, optimizer=optimizer)
    ids = {
        "a": torch.tensor([0, 1]),
        "b": torch.tensor([2, 3]),
        "l": (torch.tensor([4]), torch.tensor([0, 1, 1])),
    }
    loss_of(tables(ids), 0).backward()
    tables.step()
    before = tables.weight("b")
    tables(ids)["a"].sum().backward()
    tables.step()
    assert tables.weight("b").equal(before), "momentum moves nothing that was not used"
    vectors = tables(ids)
    vectors["a"].sum().backward()
    tables(ids)["b"][0].sum().backward()
    tables.step()
    moved = tables.weight("b").ne(before).any(dim=1)
    assert moved.tolist() == [False, False, True, optimizer.name == "adam", False]


def test_stacked_vectors_are_those_of_the_columns_and_train_alike():
    def new():
        specs = [TableSpec("a", 9, 4, slipstream.Adagrad(0.1)), TableSpec("b", 5, 4)]
        specs.append(TableSpec("c", 7, 4, slipstream.Adagrad(0.1)))
        return EmbeddingTables(specs, optimizer=slipstream.Adam(0.1))

    one, other = new(), new()
    ids = {"c": torch.tensor([1, 1, 6]), "a": torch.tensor([8, 0, 3]), "b": torch.tensor([4, 4, 0])}
    for _ in range(3):
        block, columns = one.stacked(ids), other(ids)
        assert block.shape == (3, 3, 4)
        assert block.equal(torch.stack([columns[name] for name in "abc"], dim=1))
        (block**2).sum().backward()
        (torch.stack(list(columns.values()), dim=1) ** 2).sum().backward()
        one.step()
        other.step()
    for name in "abc":
        assert one.weight(name).equal(other.weight(name))


def test_two_backward_passes_through_one_lookup_count_both():
    one, other = made(slipstream.Sgd(0.1)), made(slipstream.Sgd(0.1))
    vectors = one(ids_of(0))
    vectors["user"].sum().backward(retain_graph=True)
    vectors["user"].sum().backward(retain_graph=True)
    one.step()
    (2 * other(ids_of(0))["user"]).sum().backward()
    other.step()
    assert one.weight("user").equal(other.weight("user"))
    vectors["user"].sum().backward()  # and once more, after the step
    one.step()
    assert one.steps == 2
    assert not one.weight("user").equal(other.weight("user"))


def test_batches_of_a_data_set_are_looked_up_by_its_schema():
    rng = np.random.default_rng(0)
    dataset = slipstream.from_arrays(
        labels=rng.integers(0, 2, 50),
        columns={
            "user": rng.integers(0, 9, 50),
            "tags": slipstream.Lists.of([range(k % 4) for k in range(50)], "mean"),
        },
        validation=0,
        evaluation=0,
    )
    tables = EmbeddingTables.for_schema(
        dataset.schema, dim={"user": 4, "tags": 2}, optimizer=slipstream.Adam(0.1)
    )
    same = copy.deepcopy(tables)
    for batch in slipstream.Loader(dataset.train, 32):  # the second one is short
        n, tags = batch.n_valid, batch.lists["tags"]
        vectors = tables(batch)
        assert vectors["user"].shape == (32, 4)
        assert not vectors["user"][n:].any()
        cut = (tags.values, tags.offsets[: n + 1])
        alike = same({"user": batch.ids[:n, 0], "tags": cut})
        for name, one in vectors.items():
            assert one[:n].equal(alike[name])
            (one + 1).square().sum().backward()
            (alike[name] + 1).square().sum().backward()
    tables.step()
    same.step()
    for name in ("user", "tags"):
        assert tables.weight(name).equal(same.weight(name))


def test_any_integers_in_any_layout_are_the_same_ids():
    tables = EmbeddingTables([TableSpec("a", 200, 2), TableSpec("b", 9, 2)])
    wanted = tables({"a": torch.tensor([5, 100, 0]), "b": torch.tensor([1, 2, 8])})
    block = torch.tensor([[5, 1], [100, 2], [0, 8]])
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        found = tables({"a": block.to(dtype)[:, 0], "b": block[:, 1]})
        assert all(found[name].equal(wanted[name]) for name in wanted)
    found = tables({"a": np.array([5, 100, 0], dtype=np.uint32), "b": [1, 2, 8]})
    assert all(found[name].equal(wanted[name]) for name in wanted)


@pytest.mark.needs("cuda")
def test_vectors_come_to_the_gpu_that_the_ids_are_on_and_train_alike():
    here, there = made(slipstream.Adam(0.1)), made(slipstream.Adam(0.1))
    for step in range(3):
        ids = ids_of(step)
        moved = {
            name: tuple(one.cuda() for one in given) if isinstance(given, tuple) else given.cuda()
            for name, given in ids.items()
        }
        vectors = there(moved)
        assert {one.device.type for one in vectors.values()} == {"cuda"}
        loss_of(here(ids), step).backward()
        loss_of({name: one.cpu() for name, one in vectors.items()}, step).backward()
        here.step()
        there.step()
    assert all(here.weight(name).equal(there.weight(name)) for name, _, _ in TABLES)
    with pytest.raises(DataError, match="put them on one device"):
        there({**moved, "user": ids["user"]})


def test_ids_may_be_overwritten_once_they_are_looked_up():
    one, other = made(slipstream.Sgd(0.1)), made(slipstream.Sgd(0.1))
    ids = ids_of(3)
    for tables in (one, other):
        loss = loss_of(tables(ids), 0)
        if tables is other:
            for given in ids.values():
                (given[0] if isinstance(given, tuple) else given).zero_()
        loss.backward()
        tables.step()
    assert all(one.weight(name).equal(other.weight(name)) for name, _, _ in TABLES)


def test_a_column_in_two_tables_is_named_with_its_table():
    specs = [TableSpec("ad", 5, 4), TableSpec("linear", 5, 1)]
    tables = EmbeddingTables(specs, [Feature("ad", "ad"), Feature("ad", "linear")])
    shapes = {name: one.shape for name, one in tables({"ad": torch.tensor([1, 2])}).items()}
    assert shapes == {"ad/ad": (2, 4), "ad/linear": (2, 1)}


def test_lists_alone_are_looked_up_and_trained():
    tables = EmbeddingTables([TableSpec("a", 5, 2)], [Feature("l", "a", "sum")])
    before = tables.weight("a")
    for _ in range(2):
        tables({"l": (torch.tensor([1, 3, 3]), torch.tensor([0, 1, 1, 3]))})["l"].sum().backward()
    tables.step()
    moved = (before - tables.weight("a")) / 0.1
    torch.testing.assert_close(moved[:, 0], torch.tensor([0.0, 2, 0, 4, 0]), rtol=0, atol=1e-4)


def test_rows_may_be_counted_by_numpy_whose_numbers_overflow():
    tables = [TableSpec(name, np.int32(2**30), np.int32(1)) for name in "abc"]
    layout = Layout(tuple(tables), tuple(Feature(name, name) for name in "abc"))
    assert layout.groups[0].starts == (0, 2**30, 2**31, 3 * 2**30)


@pytest.mark.parametrize("ids", [torch.empty(0, dtype=torch.int32), []])
def test_no_ids_of_single_columns_are_no_error(ids):
    tables = EmbeddingTables([TableSpec("a", 3, 2)], optimizer=slipstream.Adam(0.1))
    before = tables.weight("a")
    tables({"a": ids})["a"].sum().backward()
    tables.step()
    assert tables.weight("a").equal(before)


def test_no_inputs_are_no_error():
    tables = made(slipstream.Adam(0.1))
    loss_of(tables(ids_of(0, n=0)), 0).backward()
    tables.step()
    assert tables.weight("user").equal(made().weight("user"))


def alive():
    gc.collect()
    return sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects())


def test_lookups_without_backward_leave_nothing_behind():
    tables = made()
    tables(ids_of(0))
    before = alive()
    for seed in range(50):
        vectors = tables(ids_of(seed))
        loss_of(vectors, 0)
    del vectors
    assert alive() <= before
    tables.step()
    assert tables.steps == 0, "nothing to apply"


def test_nothing_is_kept_without_gradients_or_in_eval_mode():
    tables = made()
    with torch.no_grad():
        assert not tables(ids_of(0))["user"].requires_grad
    with torch.inference_mode():
        tables(ids_of(0))
    assert not tables.eval()(ids_of(0))["user"].requires_grad
    assert tables.train()(ids_of(0))["user"].requires_grad


def test_gradients_that_are_dropped_move_nothing():
    tables = made(slipstream.Sgd(0.1))
    before = tables.weight("user")
    loss_of(tables(ids_of(0)), 0).backward()
    tables.zero_grad()
    tables.step()
    assert tables.steps == 0
    assert tables.weight("user").equal(before)


def test_gradients_that_pile_up_are_told(monkeypatch):
    monkeypatch.setattr("slipstream.tables.lookups._MANY", 3)
    tables = made()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(5):
            tables(ids_of(0))["user"].sum().backward()
    assert len(told) == 1
    assert "wait for EmbeddingTables.step()" in str(told[0].message)


def test_factors_scale_learning_rate_and_gradient():
    before = made().weight("user")
    moved = []
    for factors in ({}, {"lr_factor": 0.5}, {"grad_factor": 0.5}):
        tables = made(slipstream.Sgd(0.1))
        tables(ids_of(0))["user"].sum().backward()
        tables.step(**factors)
        moved.append(tables.weight("user") - before)
    torch.testing.assert_close(moved[1], moved[0] / 2, rtol=0, atol=1e-15)
    torch.testing.assert_close(moved[2], moved[0] / 2, rtol=0, atol=1e-15)


def test_length_bytes_and_printing_tell_what_there_is():
    tables = made(slipstream.RowwiseAdagrad(0.1), "fp32")
    assert len(tables) == 3
    assert tables.bytes == (30 + 12) * (4 + 1) * 4 + 9 * (3 + 1) * 4
    assert "user: 30 rows of 4 fp32, RowwiseAdagrad(lr=0.1" in repr(tables)
    assert list(tables.parameters()) == []
    assert tables.weight("user", torch.tensor([3, 1])).equal(tables.weight("user")[[3, 1]])
    assert tables.weight("user", slice(2, 5)).equal(tables.weight("user")[2:5])


def test_tables_work_inside_a_compiled_model():
    tables = made(slipstream.Sgd(0.1))
    before = tables.weight("user")
    model = torch.compile(lambda ids: tables(ids)["user"].square().sum(), backend="eager")
    model(ids_of(0)).backward()
    tables.step()
    assert not tables.weight("user").equal(before)
