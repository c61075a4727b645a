"""A warm start takes over rows by the values that they stand for."""

import numpy as np
import polars as pl
import pytest
import torch
from raw_logs import criteo_rows, prepare_criteo, prepare_table, write
from trained import config_of, criteo_data, small_run

from slipstream import Dataset, Recipe, synthesize
from slipstream.config import Config
from slipstream.errors import ConfigError
from slipstream.training.build import engine_of, model_of
from slipstream.training.init_from import WarmStart
from slipstream.training.load_run import open_run
from slipstream.training.loop import Hooks, StoppedError, train

SETTINGS = ("embedding.optimizer=adam", "dense.optimizer=adam")


def rows_by_value(engine, data, table, name=None):
    """The row of every raw value of a table, its unseen and its missing value."""
    name = name or table
    store = next(s for s in engine.tables.stores if name in [t.name for t in s.group.tables])
    start, spec = store.group.start(name), data.schema.table(table)
    rows = store.look(torch.arange(start, start + spec.rows)).numpy()
    dictionary, buckets = data.dictionary(table), data.buckets(table)
    rows_by_value = {"(unseen)": rows[spec.unseen]}
    if spec.missing is not None:
        rows_by_value["(missing)"] = rows[spec.missing]
    skipped = {spec.unseen, spec.missing, *([] if buckets is None else buckets.tolist())}
    for row in range(spec.rows):
        if dictionary is not None and row not in skipped:
            rows_by_value[dictionary.raw(row)] = rows[row]
    for number, row in enumerate([] if buckets is None else buckets):
        if row != spec.unseen:
            rows_by_value[f"bucket {number}"] = rows[row]
    return rows_by_value


def init_from(run, engine, data, on_message=lambda _: None):
    return WarmStart(run, engine.dense.model, data, on_message).fill(engine)


def begun(data, *settings, model="dlrm", seed=9):
    config = config_of(data, f"seed={seed}", *settings, model=model)
    return engine_of(config, model_of(config, data), 0)


def check_table(old, was, new, now, fresh, table, name=None):
    """Each value has its old row, or the fresh one if it is new; gives how many are old."""
    before, after = rows_by_value(old, was, table, name), rows_by_value(new, now, table, name)
    first = rows_by_value(fresh, now, table, name)
    for value, row in after.items():
        np.testing.assert_array_equal(row, before.get(value, first[value]), err_msg=value)
    return len(before.keys() & after.keys())


@pytest.mark.parametrize("model", ["dlrm", "deepfm"])
def test_rows_follow_their_values_to_other_ids(model, tmp_path):
    was, now = criteo_data(tmp_path / "a"), criteo_data(tmp_path / "b", seed=1)
    small_run(tmp_path / "run", was, *SETTINGS, model=model)
    engine, fresh = begun(now, model=model), begun(now, model=model)
    messages = []
    report = init_from(tmp_path / "run", engine, now, messages.append)
    old = open_run(tmp_path / "run").engine
    names = [table.name for table in now.schema.tables]
    for name in names:
        expected = check_table(old, was, engine, now, fresh, name)
        assert report["tables"][name] == {"rows": now.schema.table(name).rows, "copied": expected}
        assert 0 < expected < now.schema.table(name).rows
        if model == "deepfm":
            check_table(old, was, engine, now, fresh, name, f"{name}/linear")
    for name, value in engine.dense.model.state_dict().items():
        assert torch.equal(value, old.dense.model.state_dict()[name])
    assert f"C1 {report['tables']['C1']['copied']:,} of" in messages[-1]


def test_text_values_lists_and_other_storage(tmp_path):
    schema = {
        "label": "click",
        "categorical": ["user"],
        "lists": [{"name": "tags", "table": "tag", "values": "int"}],
    }
    frames = []
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        users = [None if u % 7 == 0 else f"user \u00e9 {u}" for u in rng.zipf(1.4, 600) % 300]
        tags = [" ".join(map(str, rng.integers(0, 60, 3))) for _ in range(600)]
        frames.append(pl.DataFrame({"click": rng.integers(0, 2, 600), "user": users, "tags": tags}))
    sets = []
    for number, frame in enumerate(frames):
        folder = tmp_path / str(number)
        folder.mkdir()
        frame.write_csv(folder / "log.csv")
        sets.append(prepare_table(folder, [folder / "log.csv"], schema))
    was, now = sets
    small_run(tmp_path / "run", was, "embedding.storage=split-bf16")
    engine, fresh = (begun(now, "embedding.storage=bf16") for _ in range(2))
    init_from(tmp_path / "run", engine, now)
    old = open_run(tmp_path / "run").engine
    full = rows_of_full(old, was)
    rounded = {value: row.to(torch.bfloat16).float() for value, row in full.items()}
    after, first = rows_by_value(engine, now, "user"), rows_by_value(fresh, now, "user")
    for value, row in after.items():
        expected = rounded[value].numpy() if value in rounded else first[value]
        np.testing.assert_array_equal(row, expected)
    assert len(after.keys() & rounded.keys()) > 20


def rows_of_full(engine, data):
    """The rows of `user` at full precision, by value."""
    store, spec = engine.tables.stores[0], data.schema.table("user")
    rows, _ = store.read(torch.arange(spec.rows) + store.group.start("user"))
    rows_by_value = {"(unseen)": rows[spec.unseen], "(missing)": rows[spec.missing]}
    for row in range(spec.rows):
        if row not in (spec.unseen, spec.missing):
            rows_by_value[data.dictionary("user").raw(row)] = rows[row]
    return rows_by_value


def test_the_same_data_set_is_copied_whole_also_when_it_is_gone(tmp_path):
    data = Dataset.open(synthesize(Recipe(rows=900), tmp_path / "data"))
    small_run(tmp_path / "run", data)
    small_run(tmp_path / "next", data, "stop=128", f"init_from={tmp_path / 'run'}")
    data = Dataset.open((tmp_path / "data").rename(tmp_path / "moved"))
    engine = begun(data)
    report = init_from(tmp_path / "run", engine, data)
    assert all(counts["copied"] == counts["rows"] for counts in report["tables"].values())


def test_buckets_match_where_they_are_as_many(tmp_path):
    was = criteo_data(tmp_path / "a", max_rows=20, min_count=1)
    now = criteo_data(tmp_path / "b", seed=1, max_rows=20, min_count=1)
    small_run(tmp_path / "run", was)
    assert was.schema.table("C1").buckets == now.schema.table("C1").buckets > 0
    engine, fresh = begun(now), begun(now)
    init_from(tmp_path / "run", engine, now)
    before = rows_by_value(open_run(tmp_path / "run").engine, was, "C1")
    after, first = rows_by_value(engine, now, "C1"), rows_by_value(fresh, now, "C1")
    shared = [value for value in after if value.startswith("bucket")]
    assert shared
    for value in (*shared, "(unseen)", "(missing)"):
        np.testing.assert_array_equal(after[value], before.get(value, first[value]))


def test_hashed_tables_match_by_bucket_or_not_at_all(tmp_path):
    was = criteo_data(tmp_path / "a", hash=40)
    now, other = criteo_data(tmp_path / "b", seed=1, hash=40), criteo_data(tmp_path / "c", hash=50)
    small_run(tmp_path / "run", was)
    engine, fresh = begun(now), begun(now)
    init_from(tmp_path / "run", engine, now)
    assert check_table(open_run(tmp_path / "run").engine, was, engine, now, fresh, "C3") > 20
    with pytest.raises(ConfigError, match="no dictionary to match them with"):
        init_from(tmp_path / "run", begun(other), other)


def test_other_shapes_are_errors_that_name_them(tmp_path):
    data = criteo_data(tmp_path)
    small_run(tmp_path / "run", data)
    with pytest.raises(ConfigError, match=r"cannot be used here\. .*'top.0.weight' has shape"):
        init_from(tmp_path / "run", begun(data, "model.top=[9]"), data)
    with pytest.raises(ConfigError, match="no weight"):
        init_from(tmp_path / "run", begun(data, model="deepfm"), data)
    with pytest.raises(ConfigError, match="There is no run in"):
        init_from(tmp_path / "nothing", begun(data), data)
    with pytest.raises(ConfigError, match="begin from itself"):
        small_run(tmp_path / "run", data, f"init_from={tmp_path / 'run'}", force=True)


def test_a_warm_start_that_cannot_be_is_said_before_the_folder_is_touched(tmp_path):
    data = criteo_data(tmp_path)
    small_run(tmp_path / "run", data)
    small_run(tmp_path / "precious", data)
    before = (tmp_path / "precious" / "summary.json").read_bytes()
    for settings, sentence in (
        ((f"init_from={tmp_path / 'nothing'}",), "There is no run in"),
        ((f"init_from={tmp_path / 'run'}", "model.top=[9]"), "'top.0.weight' has shape"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            small_run(tmp_path / "new", data, *settings)
        assert not (tmp_path / "new").exists()
        with pytest.raises(ConfigError, match=sentence):
            small_run(tmp_path / "precious", data, *settings, force=True)
        assert (tmp_path / "precious" / "summary.json").read_bytes() == before


def test_the_other_run_is_found_again_from_another_folder(tmp_path, monkeypatch):
    data = criteo_data(tmp_path)
    small_run(tmp_path / "run", data)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    first = small_run(tmp_path / "next", data, "init_from=run")
    small_run(tmp_path / "next", data, "init_from=run", resume=True)
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = train(data, Config.read(tmp_path / "next" / "config.yaml"), tmp_path / "again")
    assert again["weights_digest"] == first["weights_digest"]


def test_a_warm_started_run_goes_on_from_its_own_checkpoint(tmp_path):
    was = criteo_data(tmp_path / "a")
    log = write(tmp_path / "later.tsv", criteo_rows(1500, seed=2))
    now = prepare_criteo([log], tmp_path / "later", dictionary=was.folder, extend=True)
    small_run(tmp_path / "run", was)
    config = config_of(now, *SETTINGS, f"init_from={tmp_path / 'run'}")
    whole = train(now, config, tmp_path / "whole")
    assert whole["init_from"]["tables"]["C1"]["copied"] == was.schema.table("C1").rows
    calls = iter(range(100))
    with pytest.raises(StoppedError):
        train(now, config, tmp_path / "cut", hooks=Hooks(should_stop=lambda: next(calls) == 3))
    messages = []
    again = train(
        now, config, tmp_path / "cut", resume=True, hooks=Hooks(on_message=messages.append)
    )
    assert again["weights_digest"] == whole["weights_digest"]
    assert again["init_from"] == whole["init_from"]
    assert not any("copied from" in counts for counts in messages)
    cold = small_run(tmp_path / "cold", now, *SETTINGS)
    assert cold["init_from"] is None
    assert cold["weights_digest"] != whole["weights_digest"]
