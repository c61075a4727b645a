"""A loaded checkpoint has the bits that were saved, in any layout; misfits are errors."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from row_stores import fields, fill, stores_of, tables

from slipstream.errors import CheckpointError, ConfigError
from slipstream.tables.optimizers import Adagrad, Adam, RowwiseAdagrad, Sgd
from slipstream.tables.spec import TableSpec
from slipstream.training.checkpoint import save
from slipstream.training.checkpoint.checkpoints import Checkpoints
from slipstream.training.checkpoint.digest import weights_digest
from slipstream.training.checkpoint.restore import load, newest

TENSORS = {
    "weight": torch.arange(6.0).reshape(2, 3).t(),
    "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "step": torch.tensor(7),
    "none": torch.empty(0, 3, dtype=torch.float64),
    "mask": torch.tensor([True, False, True]),
    "bytes": torch.arange(5, dtype=torch.uint8),
}


def saved(folder, stores, step=1, tensors=None, state=None, keep=2):
    with Checkpoints(folder, keep=keep) as checkpoints:
        checkpoints.begin(step, stores, tensors or {}, state or {})
    return newest(folder)


@pytest.fixture
def small_ranges(monkeypatch):
    monkeypatch.setattr(save, "RANGE_BYTES", 200)


@given(specs=tables(), seed=st.integers(0, 99), data=st.data())
def test_rows_and_state_come_back_to_the_bit_in_any_grouping(specs, seed, data):
    stores = stores_of(*specs)
    fill(stores, seed)
    others = stores_of(*data.draw(st.permutations(specs)))
    fill(others, seed + 1)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(save.os, "fsync", lambda _: None)
        patch.setattr(save, "RANGE_BYTES", data.draw(st.sampled_from([1, 100, 10**6])))
        load(saved(folder, stores), others)
    assert fields(others) == fields(stores)
    assert weights_digest(others, {}) == weights_digest(stores, {})


def test_tensors_and_state_come_back_as_they_were_when_the_save_began(tmp_path):
    tensors = {name: tensor.clone() for name, tensor in TENSORS.items()}
    state = {"position": 12, "loss": 0.1 + 0.2, "sums": [1, [2.5]], "text": "ä"}
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.begin(3, [], tensors, state)
        tensors["weight"].zero_()
        state["sums"].append(3)
    checkpoint = newest(tmp_path)
    back, state_back = load(checkpoint, [])
    assert checkpoint.step == 3
    assert state_back == {"position": 12, "loss": 0.1 + 0.2, "sums": [1, [2.5]], "text": "ä"}
    assert back.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert back[name].dtype == tensor.dtype
        assert torch.equal(back[name], tensor)


def test_the_digest_sees_every_row_state_and_tensor(tmp_path):
    stores = stores_of(TableSpec("a", 5, 2, Adam()), TableSpec("b", 3, 2))
    seen = {weights_digest(stores, TENSORS)}
    for store in stores:
        for values in store.views.values():
            values[-1, -1] = 1
            seen.add(weights_digest(stores, TENSORS))
    seen.add(weights_digest(stores, {**TENSORS, "step": torch.tensor(8)}))
    seen.add(weights_digest(stores, {**TENSORS, "step": torch.tensor(7, dtype=torch.int32)}))
    assert len(seen) == 7


@pytest.mark.parametrize("before", ["fp32", "bf16", "split-bf16", "fp64"])
@pytest.mark.parametrize("after", ["fp32", "bf16", "split-bf16", "fp64"])
def test_another_storage_gets_the_nearest_numbers(before, after, tmp_path, small_ranges):
    old = stores_of(TableSpec("a", 40, 3, RowwiseAdagrad(), before))
    values = torch.randn(40, 3, dtype=torch.float64 if before == "fp64" else torch.float32)
    rows = torch.arange(40)
    old[0].write(rows, values, {"sum": torch.arange(40, dtype=values.dtype)[:, None]})
    new = stores_of(TableSpec("a", 40, 3, RowwiseAdagrad(), after))
    load(saved(tmp_path, old), new)
    exact, _ = old[0].read(rows)
    wanted = exact.to(torch.float64 if after == "fp64" else torch.float32)
    if after == "bf16":
        wanted = wanted.to(torch.bfloat16).float()
    weights, state = new[0].read(rows)
    assert torch.equal(weights, wanted)
    assert torch.equal(state["sum"][:, 0], torch.arange(40, dtype=weights.dtype))


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (TableSpec("a", 11, 2, Adagrad()), "saved with 10 rows and now has 11"),
        (TableSpec("a", 10, 3, Adagrad()), "saved with 2 elements in a row and now has 3"),
        (TableSpec("a", 10, 2, Sgd()), "sgd cannot use the state of adagrad"),
        (TableSpec("A", 10, 2, Adagrad()), "has no table 'A'"),
    ],
)
def test_what_does_not_fit_is_told_and_nothing_is_loaded(table, sentence, tmp_path):
    checkpoint = saved(tmp_path, stores_of(TableSpec("a", 10, 2, Adagrad())))
    others = stores_of(table)
    fill(others, 3)
    before = fields(others)
    with pytest.raises(CheckpointError, match=sentence):
        load(checkpoint, others)
    assert fields(others) == before


def test_a_table_that_the_model_has_not_is_an_error(tmp_path):
    checkpoint = saved(tmp_path, stores_of(TableSpec("a", 10, 2), TableSpec("b", 10, 2)))
    with pytest.raises(CheckpointError, match="has a table 'b', which the model has not"):
        load(checkpoint, stores_of(TableSpec("a", 10, 2)))


def test_files_hold_ranges_of_rows_and_state_json_lists_them(tmp_path, small_ranges):
    stores = stores_of(TableSpec("a", 60, 2), TableSpec("b", 1, 4))
    checkpoint = saved(tmp_path, stores, step=42, state={"x": 1})
    assert checkpoint.path.name == "000000000042"
    names = {
        p.relative_to(checkpoint.path).as_posix() for p in checkpoint.path.rglob("*") if p.is_file()
    }
    rows = {"rows/0-0.safetensors", "rows/0-25.safetensors", "rows/0-50.safetensors"}
    assert names == {*rows, "rows/1-0.safetensors", "dense.safetensors", "state.json"}
    listed = json.loads((checkpoint.path / "state.json").read_text())
    assert set(listed["files"]) == names - {"state.json"}
    assert listed["tables"][0] == {
        "name": "a", "rows": 60, "dim": 2, "storage": "fp32", "optimizer": "sgd",
        "ranges": [0, 25, 50],
    }  # fmt: skip


def test_the_last_ones_are_kept(tmp_path):
    with Checkpoints(tmp_path, keep=3) as checkpoints:
        for step in range(0, 50, 10):
            checkpoints.begin(step, [], {}, {})
        assert {p.name for p in tmp_path.iterdir() if p.is_dir()} >= {f"{30:012d}"}
    assert sorted(int(p.name) for p in tmp_path.iterdir()) == [20, 30, 40]
    assert checkpoints.last_saved == 40


def test_a_run_that_went_back_leaves_no_later_one_behind(tmp_path):
    saved(tmp_path, [], step=10, keep=3)
    saved(tmp_path, [], step=20, keep=3)
    saved(tmp_path, [], step=15, keep=3)
    assert [p.name[-2:] for p in sorted(tmp_path.iterdir())] == ["10", "15"]


def test_what_a_killed_save_has_not_removed_is_removed_by_a_run_that_saves_nothing_more(tmp_path):
    for step in (10, 20, 30):
        saved(tmp_path, [], step=step, keep=3)
    with Checkpoints(tmp_path, keep=2) as checkpoints:
        checkpoints.retire(40)  # there is none of that step: nothing is touched
        assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 3
        checkpoints.retire(30)
    left = sorted(int(path.name) for path in tmp_path.iterdir() if path.is_dir())
    assert left == [20, 30]


def test_the_same_step_can_be_saved_again(tmp_path):
    saved(tmp_path, [], step=10, state={"which": 1}, keep=1)
    assert saved(tmp_path, [], step=10, state={"which": 2}, keep=1).state == {"which": 2}
    assert [p.name for p in tmp_path.iterdir()] == [f"{10:012d}"]


def test_what_a_killed_process_left_is_brought_into_order(tmp_path):
    checkpoint = saved(tmp_path, [], step=10)
    shutil.copytree(checkpoint.path, tmp_path / f"{20:012d}.partial")
    checkpoint.path.rename(tmp_path / f"{10:012d}.replaced")
    assert newest(tmp_path).step == 10  # also before anyone may bring it into order
    Checkpoints(tmp_path).close()
    assert [p.name for p in tmp_path.iterdir()] == [f"{10:012d}"]
    shutil.copytree(checkpoint.path, tmp_path / f"{10:012d}.replaced")
    Checkpoints(tmp_path).close()
    assert [p.name for p in tmp_path.iterdir()] == [f"{10:012d}"]


def test_begin_waits_for_the_one_before(tmp_path, monkeypatch):
    go, write = threading.Event(), save.Save.finish
    monkeypatch.setattr(save.Save, "finish", lambda self: (go.wait(30), write(self)))
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.begin(1, [], {}, {})
        assert checkpoints.saving
        assert checkpoints.last_saved is None
        threading.Timer(0.2, go.set).start()
        checkpoints.begin(2, [], {}, {})
        assert checkpoints.last_saved == 1


def test_a_save_can_be_given_up(tmp_path, monkeypatch):
    go, write = threading.Event(), save.Save.finish
    monkeypatch.setattr(save.Save, "finish", lambda self: (go.wait(30), write(self)))
    checkpoints = Checkpoints(tmp_path)
    checkpoints.begin(1, [], {}, {})
    threading.Timer(0.2, go.set).start()
    checkpoints.close(wait=False)
    assert newest(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_for_one_at_a_time(tmp_path):
    another = pytest.raises(CheckpointError, match="Another process is saving checkpoints")
    with Checkpoints(tmp_path), another:
        Checkpoints(tmp_path)
    Checkpoints(tmp_path).close()


def test_nothing_saved_yet_is_no_error(tmp_path):
    assert newest(tmp_path) is None
    assert newest(tmp_path / "none") is None


@pytest.mark.parametrize(
    ("tensors", "state", "sentence"),
    [
        ({"z": torch.zeros(2, dtype=torch.complex64)}, {}, "'z' of type torch.complex64"),
        ({}, {"when": {1: 2}}, r"key 1 in state\['when'\]"),
        ({}, {"path": Path("x")}, "must be JSON"),
    ],
)
def test_what_cannot_be_saved_is_told_at_once(tensors, state, sentence, tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        with pytest.raises(CheckpointError, match=sentence):
            checkpoints.begin(1, [], tensors, state)
        assert not checkpoints.saving


def test_options_that_make_no_sense_are_told(tmp_path):
    with pytest.raises(ConfigError, match="keep at least 1"):
        Checkpoints(tmp_path, keep=0)
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match="cannot be saved in"):
        Checkpoints(tmp_path / "file")
    checkpoints = Checkpoints(tmp_path / "new")
    checkpoints.close()
    with pytest.raises(CheckpointError, match="are closed"):
        checkpoints.begin(1, [], {}, {})


def test_rows_are_unchanged_by_saving(tmp_path):
    stores = stores_of(TableSpec("a", 9, 3))
    fill(stores, 0)
    before = np.array(stores[0].records)
    saved(tmp_path, stores)
    assert np.array_equal(stores[0].records, before)


def test_an_interrupt_before_the_save_has_started_leaves_nothing_in_the_way(tmp_path, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    stores = stores_of(TableSpec("a", 9, 3))
    with Checkpoints(tmp_path) as checkpoints:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", interrupt)
            with pytest.raises(KeyboardInterrupt):
                checkpoints.begin(1, stores, {}, {})
        checkpoints.begin(2, stores, {}, {})
    assert newest(tmp_path).step == 2


def test_an_error_in_the_loop_is_not_covered_by_that_of_a_save(tmp_path, monkeypatch):
    monkeypatch.setattr(save.Save, "finish", lambda self: 1 / 0)
    with pytest.raises(KeyError), Checkpoints(tmp_path) as checkpoints:
        checkpoints.begin(1, [], {}, {})
        raise KeyError
    with pytest.raises(CheckpointError, match="ZeroDivision"), Checkpoints(tmp_path) as checkpoints:
        checkpoints.begin(1, [], {}, {})
