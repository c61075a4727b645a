import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from random_datasets import assert_same_inputs

from slipstream import DataError, Lists, from_arrays, from_table
from slipstream.data.encoder import decode

N = 40


def _raw():
    rng = np.random.default_rng(3)
    words = np.array(["red", "green", "blue", None, "naïve"], dtype=object)
    return {
        "click": rng.integers(0, 2, N),
        "colour": words[rng.integers(0, 5, N)],
        "shop": rng.integers(-3, 4, N),
        "price": rng.random(N).astype(np.float32),
        "basket": [rng.integers(0, 5, k).tolist() for k in rng.integers(0, 4, N)],
        "when": np.arange(N) * 60,
    }


def _from_arrays(raw, **options):
    return from_arrays(
        labels=raw["click"],
        columns={
            "colour": raw["colour"],
            "shop": raw["shop"],
            "basket": Lists.of(raw["basket"], "sequence"),
        },
        dense={"price": raw["price"]},
        times=raw["when"],
        label="click",
        **options,
    )


def test_decoded_ids_are_the_raw_values_again():
    raw = _raw()
    dataset = _from_arrays(raw, min_count=1, validation=0, evaluation=0)
    schema, shard = dataset.schema, dataset.train.shards[0]
    for place, column in enumerate(schema.singles):
        table, known = schema.table(column.table), dataset.dictionary(column.table)
        values = [decode(int(row), table, known) for row in shard.ids[:, place]]
        assert values == ["(missing)" if v is None else str(v) for v in raw[column.name]]
    values = [dataset.dictionary("basket").raw(row) for row in shard.lists["basket"].values]
    assert values == [str(v) for item in raw["basket"] for v in item]


def test_values_seen_less_than_min_count_in_training_share_the_unseen_id():
    dataset = from_arrays(
        labels=np.zeros(10),
        columns={"a": np.array([1, 1, 2, 3, 3, 3, 2, 9, 2, 9])},
        validation=0.2,
        evaluation=0.2,
        min_count=2,
    )
    table = dataset.schema.table("a")
    assert dataset.counts("a").tolist() == [3, 2, 1]
    assert table.unseen == 2
    assert dataset.train.shards[0].ids[:, 0].tolist() == [1, 1, 2, 0, 0, 0]
    assert dataset.validation.shards[0].ids[:, 0].tolist() == [2, 2]
    assert dataset.evaluation.shards[0].ids[:, 0].tolist() == [2, 2]


def test_columns_that_share_a_table_share_ids_and_counts():
    dataset = from_arrays(
        labels=np.zeros(3),
        columns={"item": np.array([5, 6, 7]), "past": Lists.of([[6], [6, 7], [6]], "sequence")},
        tables={"past": "item"},
        validation=0,
        evaluation=0,
        min_count=1,
    )
    assert dataset.counts("item").tolist() == [4, 2, 1, 0]
    assert dataset.train.shards[0].ids[:, 0].tolist() == [2, 0, 1]
    assert dataset.train.shards[0].lists["past"].values.tolist() == [0, 0, 1, 0]


def test_strings_that_end_in_nul_are_values_of_their_own():
    words = np.array(["a", "a\0", "a"], dtype=object)
    dataset = from_arrays(np.zeros(3), {"a": words}, validation=0, evaluation=0, min_count=1)
    assert dataset.train.shards[0].ids[:, 0].tolist() == [0, 1, 0]
    assert dataset.dictionary("a").raw(1) == "a\0"


def test_an_unknown_table_is_an_error_that_names_the_nearest(tmp_path):
    dataset = from_arrays(np.zeros(3), {"shop": np.arange(3)})
    with pytest.raises(DataError, match="Did you mean shop"):
        dataset.schema.table("shp")


@pytest.mark.parametrize("library", ["polars", "arrow"])
def test_a_table_gives_what_its_arrays_give(library):
    raw = _raw()
    frame = pl.DataFrame(
        {k: list(v) for k, v in raw.items()}, schema_overrides={"price": pl.Float32}
    )
    table = frame if library == "polars" else pa.table({k: list(v) for k, v in raw.items()})
    result = from_table(
        table,
        label="click",
        columns=["colour", "shop"],
        dense=["price"],
        lists={"basket": "sequence"},
        time="when",
    )
    assert_same_inputs(result, _from_arrays(raw))


def test_a_column_that_is_not_there_is_named_with_the_nearest_one():
    with pytest.raises(DataError, match=r"'colou'.*colour"):
        from_table(pl.DataFrame({"colour": [1], "y": [0]}), label="y", columns=["colou"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"labels": np.array([0.0, 0.5])}, "label of example 1 is 0.5; labels are 0 or 1"),
        ({"labels": np.array([0.0, 2.0])}, "label of example 1 is 2"),
        ({"labels": np.array([0.0, np.nan])}, "nan at example 1"),
        ({"dense": {"d": np.array([1.0, np.inf])}}, "inf at example 1"),
        ({"columns": {"a": np.array([0.5, 1.5])}}, "'a' is of type float64"),
        ({"columns": {"a": np.array([1, "x"], dtype=object)}}, "one or the other"),
        ({"columns": {"a": np.array([1, 2, 3])}}, "'a' has 3 examples, but there are 2 labels"),
        ({"columns": {"a": Lists.of([[1]])}}, "'a' has 1 examples"),
        ({"columns": {"a": Lists.of([[1], ["1"]])}}, "one or the other"),
        ({"columns": {"a": np.array([2**63, 1], dtype=np.uint64)}}, "beyond 64 bits"),
        ({"columns": {"a": np.array([2**70, 1], dtype=object)}}, "beyond 64 bits"),
        ({"dense": {"d": np.arange(3)}}, "d has shape"),
        ({"weights": np.array([1.0, -2.0])}, "weight of example 1 is -2"),
        ({"times": np.array([2, 1])}, "times falls from 2 to 1 at example 1"),
        ({"times": np.array([1.5, 2.5])}, "times is of type float64"),
        ({"times": np.array(["NaT", "NaT"], dtype="datetime64[s]")}, "missing values"),
        ({"columns": {"a": np.array([b"\xff", b"a"])}}, "not UTF-8"),
        ({"columns": {"a": np.array(["\ud800", "a"], dtype=object)}}, "not Unicode"),
        ({"validation": float("nan")}, "leave"),
        ({"min_count": -1}, "min_count is -1"),
        ({"tables": {"b": "a"}}, "'b'"),
        ({"evaluation": 1.0}, "leave"),
        ({"columns": {"label": np.arange(2)}}, "more than one"),
        ({"columns": {"a": Lists(np.arange(3), np.array([0, 2, 1]))}}, "offsets"),
    ],
)
def test_wrong_arrays_are_errors_that_say_where(change, words):
    good = {"labels": np.zeros(2), "columns": {"a": np.arange(2)}}
    with pytest.raises(DataError, match=words):
        from_arrays(**{**good, **change})
