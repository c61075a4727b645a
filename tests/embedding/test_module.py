import copy
import gc
import pickle
import warnings
from itertools import pairwise

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional

import slipstream
from slipstream import EmbeddingTables, Feature, ListBatch, TableSpec
from slipstream.errors import ConfigError, DataError

TABLES = (("user", 30, 4), ("item", 12, 4), ("word", 9, 3))
FEATURES = (
    Feature("user", "user"),
    Feature("item", "item"),
    Feature("other", "item"),
    Feature("words", "word", "sum"),
    Feature("topics", "word", "mean"),
    Feature("history", "item", "sequence", 3),
)
TORCH = {
    "sgd": (slipstream.Sgd(0.1), lambda p: torch.optim.SGD(p, lr=0.1)),
    "adagrad": (slipstream.Adagrad(0.1), lambda p: torch.optim.Adagrad(p, lr=0.1)),
    "adam": (slipstream.Adam(0.01), lambda p: torch.optim.SparseAdam(p, lr=0.01)),
}


def made(optimizer=None, storage="fp64", **options):
    specs = [TableSpec(name, rows, dim, storage=storage) for name, rows, dim in TABLES]
    return EmbeddingTables(specs, FEATURES, optimizer=optimizer, **options)


def ids_of(seed, n=8):
    generator = torch.Generator().manual_seed(seed)
    rows = {name: rows for name, rows, _ in TABLES}
    ids = {}
    for feature in FEATURES:
        size, shape = rows[feature.table], (n,)
        if feature.kind != "single":
            lengths = torch.randint(0, 6, (n,), generator=generator)
            offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
            shape = (int(offsets[-1]),)
        ids[feature.column] = torch.randint(0, size, shape, generator=generator)
        if feature.kind != "single":
            ids[feature.column] = (ids[feature.column], offsets)
    return ids


def loss_of(vectors, seed):
    """Some loss in which every element has a weight of its own."""
    generator = torch.Generator().manual_seed(seed)
    total = 0
    for one in vectors.values():
        weight = torch.randn(one.shape, generator=generator, dtype=one.dtype)
        total = total + (one * weight).sum() + (one * one).sum()
    return total


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
    moved = (before - tables.weight("a")) / 0.01
    torch.testing.assert_close(moved[:, 0], torch.tensor([0.0, 2, 0, 4, 0]), rtol=0, atol=1e-4)


def test_no_inputs_are_no_error():
    tables = made(slipstream.Adam(0.1))
    loss_of(tables(ids_of(0, n=0)), 0).backward()
    tables.step()
    assert tables.weight("user").equal(made().weight("user"))


@pytest.mark.parametrize("storage", ["fp32", "bf16", "split-bf16", "fp64"])
@pytest.mark.parametrize("kind", [slipstream.Adam, slipstream.RowwiseAdagrad])
def test_training_goes_on_from_a_state_dict_to_the_bit(kind, storage, tmp_path):
    def train(tables, steps):
        for step in steps:
            loss_of(tables(ids_of(step)), step).backward()
            tables.step(lr_factor=1 / (1 + step))

    tables = made(kind(0.1), storage)
    train(tables, range(4))
    model = torch.nn.ModuleDict({"tables": tables})
    state = model.state_dict()
    assert state["tables.user.weight"].shape == (30, 4)
    assert state["tables.user.weight"].dtype == {
        "bf16": torch.bfloat16,
        "fp64": torch.float64,
    }.get(storage, torch.float32)
    save_file(state, tmp_path / "model.safetensors")
    torch.save(state, tmp_path / "model.pt")
    train(tables, range(4, 8))
    for state in (load_file(tmp_path / "model.safetensors"), torch.load(tmp_path / "model.pt")):
        again = torch.nn.ModuleDict({"tables": made(kind(0.1), storage, seed=5)})
        again.load_state_dict(state)
        train(again["tables"], range(4, 8))
        wanted = model.state_dict()
        for key, values in again.state_dict().items():
            assert values.equal(wanted[key]), key


def test_a_state_dict_is_a_copy():
    tables = made(slipstream.Sgd(0.1))
    state = tables.state_dict()
    tables.weight("user").zero_()
    state["user.weight"].zero_()
    assert tables.weight("user").any()


def test_a_state_dict_that_does_not_fit_is_refused():
    tables = made(slipstream.Adagrad(0.1), "fp32", seed=1)
    before = tables.state_dict()
    state = made(slipstream.RowwiseAdagrad(0.1), "fp32").state_dict()
    with pytest.raises(RuntimeError, match=r"user.sum has the shape \[30, 1\].*needs \[30, 4\]"):
        tables.load_state_dict(state)
    for key, values in tables.state_dict().items():
        assert values.equal(before[key]), "rows of other shapes change nothing"
    with pytest.raises(RuntimeError, match=r"Missing key.*user.sum"):
        tables.load_state_dict(made(slipstream.Sgd(0.1), "fp32").state_dict())
    with pytest.raises(RuntimeError, match=r"Unexpected key.*shop.weight"):
        tables.load_state_dict({**before, "shop.weight": torch.zeros(2, 2)})


def test_rows_of_ones_own_are_loaded_by_name():
    tables = made(slipstream.Adagrad(0.1), "bf16")
    rows = torch.arange(120.0).reshape(30, 4)
    tables.load_state_dict({"user.weight": rows}, strict=False)
    assert tables.weight("user").float().equal(rows)
    assert tables.weight("item").equal(made(None, "bf16").weight("item"))


@pytest.mark.parametrize("way", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_trains_on_its_own(way):
    tables = made(slipstream.Adam(0.1))
    loss_of(tables(ids_of(0)), 0).backward()
    tables.step()
    loss_of(tables(ids_of(1)), 1).backward()  # waits, and is not copied
    twin = way(tables)
    assert twin.weight("user").equal(tables.weight("user"))
    twin.step()
    assert twin.steps == 1
    loss_of(twin(ids_of(1)), 1).backward()
    twin.step()
    assert not twin.weight("user").equal(tables.weight("user"))
    tables.step()
    assert twin.weight("user").equal(tables.weight("user"))


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
    assert alive() == before
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
    monkeypatch.setattr("slipstream.embedding.lookups._MANY", 3)
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


def wrong(**changed):
    ids = ids_of(0)
    for name, value in changed.items():
        ids[name] = value
    return ids


@pytest.mark.parametrize(
    ("ids", "part"),
    [
        (wrong(usr=torch.tensor([1])), "no column 'usr'. Did you mean user"),
        ({"user": torch.tensor([1])}, "column 'item' is missing"),
        (wrong(user=torch.zeros(8)), "torch.float32; they must be integers"),
        (wrong(user=torch.ones(8, dtype=torch.bool)), "must be integers"),
        (wrong(user=torch.zeros(8, 1, dtype=torch.int64)), "shape .8, 1., not one dimension"),
        (wrong(user=torch.zeros(7, dtype=torch.int64)), "'user' has 7 inputs, but .* 'item' has 8"),
        (wrong(user=torch.zeros(8, dtype=torch.int64, device="meta")), "meta device"),
        (wrong(user=(torch.tensor([1]), torch.tensor([0, 1]))), "single id an input"),
        (wrong(user=None), "NoneType, not a tensor"),
        (wrong(user="12345678"), "str, not a tensor"),
        (wrong(user=ListBatch(torch.tensor([1]), torch.tensor([0, 1]))), "single id an input"),
        (wrong(user=torch.full((8,), 30)), "'user' has the id 30 in input 0"),
        (wrong(words=torch.tensor([1])), r"give the pair \(values, offsets\)"),
        (wrong(words=(torch.tensor([1]), torch.tensor([0]))), "must go from 0 to the number"),
        (
            wrong(words=ListBatch(torch.tensor([1, 2]), torch.tensor([0, 2, 1, 2]))),
            "fall somewhere",
        ),
        (
            wrong(words=(torch.tensor([1]), torch.tensor([0, 0, 0, 0, 0, 0, 0, 1]))),
            "has 7 .offsets have one entry more",
        ),
        (torch.tensor([1]), "mapping from column to tensor"),
    ],
)
def test_ids_that_do_not_fit_are_errors_that_say_why(ids, part):
    with pytest.raises(DataError, match=part):
        made()(ids)


def test_tables_that_make_no_sense_are_errors_that_say_why():
    spec = TableSpec("a", 3, 2)
    for arguments, part in [
        (([],), "at least one table"),
        (([spec, TableSpec("b", 3, 2)], [Feature("a", "a")]), "No column uses .* 'b'"),
        (([spec], [Feature("a", "a"), Feature("a", "a", "sum")]), "called 'a/a'"),
        (([spec], [Feature("a", "aa")]), "Did you mean a"),
        (([spec], [Feature("a", "a", "meen")]), "Did you mean mean"),
        (
            ([spec, TableSpec("b", 3, 2)], [Feature("x", "a"), Feature("x", "b", "sum")]),
            "a list for another",
        ),
    ]:
        with pytest.raises(ConfigError, match=part):
            EmbeddingTables(*arguments)
    with pytest.raises(ConfigError, match="do not stack"):
        made().stacked(ids_of(0))
    with pytest.raises(ConfigError, match=r"no table 'usr'\. Did you mean user"):
        made().weight("usr")
    with pytest.raises(ConfigError, match="lr_factor is nan"):
        made().step(lr_factor=float("nan"))


def test_several_processes_are_refused_rather_than_trained_apart(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    with pytest.raises(ConfigError, match="2 processes train together"):
        made().step()


def test_a_batch_needs_tables_made_for_its_schema():
    dataset = slipstream.from_arrays(np.zeros(9), {"a": np.arange(9), "b": np.arange(9)})
    batch = next(slipstream.Loader(dataset.train, 4))
    with pytest.raises(DataError, match="for_schema"):
        EmbeddingTables([TableSpec("a", 9, 2)])(batch)
    other = slipstream.from_arrays(np.zeros(9), {"a": np.arange(9)})
    with pytest.raises(DataError, match=r"2 single columns .* has 1"):
        EmbeddingTables.for_schema(other.schema, dim=2)(batch)


def test_tables_work_inside_a_compiled_model():
    tables = made(slipstream.Sgd(0.1))
    before = tables.weight("user")
    model = torch.compile(lambda ids: tables(ids)["user"].square().sum(), backend="eager")
    model(ids_of(0)).backward()
    tables.step()
    assert not tables.weight("user").equal(before)
