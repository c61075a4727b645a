import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_datasets import assert_same_inputs, datasets

from slipstream import DataError, Dataset, from_arrays, verify
from slipstream.data.writer import DatasetWriter


@given(dataset=datasets(), rows_per_shard=st.sampled_from([1, 2, 7, 64]))
def test_any_data_set_written_and_read_back_is_the_same(dataset, rows_per_shard):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set"
        again = dataset.save(out, rows_per_shard=rows_per_shard)
        assert_same_inputs(dataset, again)
        assert again.manifest.parts["train"].positives == dataset.manifest.parts["train"].positives
        for name, part in again.manifest.parts.items():
            assert part.lists == dataset.manifest.parts[name].lists
        for table in dataset.schema.tables:
            np.testing.assert_array_equal(again.counts(table.name), dataset.counts(table.name))
            for row in range(table.rows):
                if row not in (table.unseen, table.missing):
                    raw = dataset.dictionary(table.name).raw(row)
                    assert again.dictionary(table.name).raw(row) == raw
        assert verify(out) == []


def _single(tmp_path: Path) -> Dataset:
    rng = np.random.default_rng(0)
    return from_arrays(
        labels=rng.integers(0, 2, 100),
        columns={"a": rng.integers(0, 9, 100), "b": rng.integers(0, 9, 100).astype(str)},
        dense={"d": rng.random(100)},
    ).save(tmp_path / "set", rows_per_shard=30)


def test_arrays_of_a_shard_are_views_of_its_files(tmp_path):
    part = _single(tmp_path).train
    ids = part.runs(5, 9)[0].ids
    assert not ids.flags.owndata
    assert not ids.flags.writeable
    assert np.shares_memory(ids, part.shards[0].ids)


def test_a_part_without_inputs_can_be_saved_and_opened(tmp_path):
    dataset = from_arrays(np.zeros(3), {"a": np.arange(3)}, validation=0, evaluation=0)
    assert len(dataset.save(tmp_path / "set").evaluation) == 0


def test_a_table_of_more_than_int32_rows_has_int64_ids():
    from slipstream import Column, Schema, Table

    wide, narrow = Table("wide", 2**31 + 1, 0), Table("narrow", 2**31, 0)
    columns = (Column("w", "wide"), Column("n", "narrow"))
    assert Schema((narrow,), columns[1:]).id_dtype == np.int32
    assert Schema((wide, narrow), columns).id_dtype == np.int64


def test_an_existing_data_set_is_kept_unless_forced(tmp_path):
    dataset = _single(tmp_path)
    with pytest.raises(DataError, match="already holds a data set"):
        dataset.save(tmp_path / "set")
    small = from_arrays(np.zeros(3), {"a": np.arange(3)}, validation=0, evaluation=0)
    assert len(small.save(tmp_path / "set", force=True).train) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_a_folder_that_is_no_data_set_is_never_replaced(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    small = from_arrays(np.zeros(3), {"a": np.arange(3)}, validation=0, evaluation=0)
    with pytest.raises(DataError, match="left alone"):
        small.save(tmp_path, force=True)
    assert (tmp_path / "thesis.txt").exists()


def test_a_failure_while_writing_leaves_nothing(tmp_path):
    dataset = _single(tmp_path)
    out = tmp_path / "other"
    with (
        pytest.raises(RuntimeError, match="stop"),
        DatasetWriter(out, dataset.schema, source={"kind": "test"}) as writer,
    ):
        writer.append("train", dataset.train.shards[0])
        raise RuntimeError("stop")
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_a_second_writer_to_the_same_folder_is_refused(tmp_path):
    dataset = _single(tmp_path)
    out = tmp_path / "other"
    with DatasetWriter(out, dataset.schema, source={"kind": "test"}) as writer:
        with pytest.raises(DataError, match="Another process"):
            DatasetWriter(out, dataset.schema, source={"kind": "test"})
        assert writer.work.exists()
    assert len(dataset.save(out).train) == len(dataset.train)


def test_a_finished_writer_leaves_the_next_one_alone(tmp_path):
    dataset = _single(tmp_path)
    names = [table.name for table in dataset.schema.tables]
    next_one = tmp_path / "other.partial"
    with DatasetWriter(tmp_path / "other", dataset.schema, source={"kind": "test"}) as writer:
        writer.finish(
            {name: dataset.counts(name) for name in names},
            {name: dataset.dictionary(name) for name in names},
        )
        next_one.mkdir()  # as another process may, now that the name is free
    assert next_one.exists()


def test_a_writer_with_a_folder_of_its_callers_leaves_the_name_to_the_caller(tmp_path):
    dataset = _single(tmp_path)
    names = [table.name for table in dataset.schema.tables]
    work = tmp_path / "aside"
    with DatasetWriter(
        tmp_path / "other", dataset.schema, source={"kind": "test"}, work=work
    ) as writer:
        result = writer.finish(
            {name: dataset.counts(name) for name in names},
            {name: dataset.dictionary(name) for name in names},
        )
    assert result == work
    assert not (tmp_path / "other").exists()
    assert Dataset.open(work).schema == dataset.schema


def test_what_a_dead_writer_left_is_removed(tmp_path):
    left = tmp_path / "other.partial"
    left.mkdir()
    (left / "half").write_text("a shard")
    (tmp_path / "other.partial.lock").write_text("")
    dataset = _single(tmp_path)
    assert len(dataset.save(tmp_path / "other").train) == len(dataset.train)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "set"]


@pytest.mark.parametrize("stray", ["notes.txt", "train/more"])
def test_a_data_set_with_files_of_the_users_own_is_never_replaced(tmp_path, stray):
    dataset = _single(tmp_path)
    (tmp_path / "set" / stray).write_text("mine")
    with pytest.raises(DataError, match=stray):
        dataset.save(tmp_path / "set", force=True)
    assert (tmp_path / "set" / stray).read_text() == "mine"


def test_a_manifest_of_something_else_does_not_make_a_folder_replaceable(tmp_path):
    app = tmp_path / "app"
    app.mkdir()
    (app / "manifest.json").write_text('{"name": "web app"}')
    with pytest.raises(DataError, match="left alone"):
        _single(tmp_path).save(app, force=True)
    assert (app / "manifest.json").exists()


def test_the_old_data_set_stays_if_the_new_one_cannot_take_its_name(tmp_path, monkeypatch):
    dataset = _single(tmp_path)
    rename = Path.rename

    def broken(self, target):
        if self.name == "set.partial":
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", broken)
    with pytest.raises(KeyboardInterrupt):
        dataset.save(tmp_path / "set", force=True)
    assert verify(tmp_path / "set") == []
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_a_link_to_a_folder_is_followed(tmp_path):
    dataset = _single(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "set")
    dataset.save(tmp_path / "link", force=True)
    assert (tmp_path / "link").is_symlink()
    assert verify(tmp_path / "set") == []


def test_the_current_folder_is_not_replaced(tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    with pytest.raises(DataError, match="current folder"):
        _single(tmp_path).save(".")


def test_a_shard_of_no_inputs_is_an_error(tmp_path):
    with pytest.raises(DataError, match="rows_per_shard is 0"):
        _single(tmp_path).save(tmp_path / "other", rows_per_shard=0)


def test_ids_are_checked_when_they_are_written(tmp_path):
    dataset = _single(tmp_path)
    inputs = dataset.train.shards[0]
    wrong = np.array(inputs.ids)
    wrong[4, 1] = 2**20
    with (
        DatasetWriter(tmp_path / "other", dataset.schema, source={"kind": "test"}) as writer,
        pytest.raises(DataError, match="'b' has id 1048576 at position 4"),
    ):
        writer.append("train", type(inputs)(inputs.labels, wrong, inputs.dense))


def test_columns_may_have_any_name_but_stay_inside_the_folder(tmp_path):
    names = ["../../evil", "a/b", "", "ids", "x" * 300]
    columns = {name: np.arange(4) for name in names if name}
    from slipstream import Lists

    columns["../list"] = Lists.of([[1], [], [2, 3], [1]])
    dataset = from_arrays(np.zeros(4), columns, validation=0, evaluation=0, min_count=1)
    again = dataset.save(tmp_path / "inside" / "set")
    assert_same_inputs(dataset, again)
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]
