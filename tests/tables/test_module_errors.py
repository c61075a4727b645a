import numpy as np
import pytest
import torch
from tables.every_table import ids_of, made

import slipstream
from slipstream import EmbeddingTables, Feature, ListBatch, TableSpec
from slipstream.errors import ConfigError, DataError


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
        (
            wrong(user=torch.zeros(7, dtype=torch.int64)),
            "'user' has 7 examples, but .* 8",
        ),
        (wrong(user=torch.zeros(8, dtype=torch.int64, device="meta")), "meta device"),
        (wrong(user=(torch.tensor([1]), torch.tensor([0, 1]))), "one id for each example"),
        (wrong(user=None), "NoneType, not a tensor"),
        (wrong(user="12345678"), "str, not a tensor"),
        (wrong(user=ListBatch(torch.tensor([1]), torch.tensor([0, 1]))), "one id for each example"),
        (wrong(user=[[1], [2, 3]]), "'user' are no integers: expected sequence of length 1"),
        (wrong(user=torch.full((8,), 30)), "'user' has the id 30 in example 0"),
        (
            wrong(history=(torch.tensor([12, 1, 2, 3]), torch.tensor([0] * 5 + [4] * 4))),
            "'history' has the id 12 in example 4",
        ),
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
        (([spec], [Feature("a", "a", "sum", 2)]), "of kind 'sum' and has the length 2"),
        (([spec], [Feature("a", "a", "single", -1)]), "only sequences have one"),
    ]:
        with pytest.raises(ConfigError, match=part):
            EmbeddingTables(*arguments)
    with pytest.raises(ConfigError, match="do not stack"):
        made().stacked(ids_of(0))
    with pytest.raises(ConfigError, match=r"no table 'usr'\. Did you mean user"):
        made().weight("usr")
    with pytest.raises(DataError, match=r"no row -1 in table 'user': it has 30 rows, 0 to 29"):
        made().weight("user", torch.tensor([3, -1, 30]))
    with pytest.raises(DataError, match=r"shape \[1, 2\], not one dimension"):
        made().weight("user", torch.tensor([[3, 4]]))
    for optimizer in ("sgd", torch.optim.SGD):
        with pytest.raises(ConfigError, match="it must be a row optimizer of slipstream"):
            EmbeddingTables([spec], optimizer=optimizer)
    for rows in (2.5, "3"):
        with pytest.raises(ConfigError, match="it must be a whole number"):
            TableSpec("a", rows, 2)
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
    with pytest.raises(ConfigError, match=r"'c' is no single column .* Choose from a, b"):
        EmbeddingTables([TableSpec("c", 9, 2)], schema=dataset.schema)
