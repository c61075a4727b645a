"""A damaged checkpoint is named and the one before it is used."""

from __future__ import annotations

import shutil

import pytest
import torch
from row_stores import fields, fill, stores_of

from slipstream.errors import CheckpointError
from slipstream.tables.optimizers import Adagrad
from slipstream.tables.spec import TableSpec
from slipstream.training.checkpoint.checkpoints import Checkpoints
from slipstream.training.checkpoint.restore import load, newest

SPECS = (TableSpec("a", 20, 4, Adagrad(), "split-bf16"), TableSpec("b", 5, 4))
FILES = ("rows/0-0.safetensors", "rows/1-0.safetensors", "dense.safetensors", "state.json")


@pytest.fixture
def two(tmp_path):
    """The checkpoints of steps 10 and 20, and the rows of the first."""
    stores = stores_of(*SPECS)
    fill(stores, 1)
    first = fields(stores)
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.begin(10, stores, {"w": torch.ones(3)}, {"step": 10})
        checkpoints.close()
    with Checkpoints(tmp_path) as checkpoints:
        fill(stores, 2)
        checkpoints.begin(20, stores, {"w": torch.zeros(3)}, {"step": 20})
    return tmp_path, first


def flip(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 0x10
    path.write_bytes(data)


def assert_goes_on_from_the_first(folder, first, name, why):
    checkpoint = newest(folder)
    assert checkpoint.step == 10
    assert len(checkpoint.warnings) == 1
    assert f"{20:012d} is damaged: " in checkpoint.warnings[0]
    assert name in checkpoint.warnings[0]
    assert why in checkpoint.warnings[0]
    stores = stores_of(*SPECS)
    tensors, state = load(checkpoint, stores)
    assert fields(stores) == first
    assert state == {"step": 10}
    assert torch.equal(tensors["w"], torch.ones(3))


def test_the_newest_is_used_where_nothing_is_damaged(two):
    checkpoint = newest(two[0])
    assert (checkpoint.step, checkpoint.warnings) == (20, ())


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_anywhere_is_seen(two, name):
    folder, first = two
    path = folder / f"{20:012d}" / name
    whole = path.read_bytes()
    for place in sorted({0, 7, 8, *range(9, len(whole), max(1, len(whole) // 40)), len(whole) - 1}):
        flip(path, place)
        assert_goes_on_from_the_first(folder, first, name, "")
        path.write_bytes(whole)
    assert newest(folder).step == 20


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("left", [0, 5, -1])
def test_a_truncated_file_is_seen(two, name, left):
    folder, first = two
    path = folder / f"{20:012d}" / name
    path.write_bytes(path.read_bytes()[:left])
    why = "" if name == "state.json" else "bytes and should have"
    assert_goes_on_from_the_first(folder, first, name, why)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_seen(two, name):
    folder, first = two
    (folder / f"{20:012d}" / name).unlink()
    assert_goes_on_from_the_first(folder, first, name, "is missing")


def test_an_empty_folder_is_seen(two):
    folder, first = two
    shutil.rmtree(folder / f"{20:012d}")
    (folder / f"{20:012d}").mkdir()
    assert_goes_on_from_the_first(folder, first, "state.json", "is missing")


def test_a_file_of_another_checkpoint_is_seen(two):
    folder, first = two
    name = "dense.safetensors"
    shutil.copy(folder / f"{10:012d}" / name, folder / f"{20:012d}" / name)
    assert_goes_on_from_the_first(folder, first, name, "the checksum of")


def test_if_none_is_whole_the_error_names_all(two):
    folder, _ = two
    flip(folder / f"{20:012d}" / FILES[0], 100)
    (folder / f"{10:012d}" / FILES[1]).unlink()
    with pytest.raises(CheckpointError) as error:
        newest(folder)
    text = str(error.value)
    assert f"{20:012d} is damaged: the checksum of rows/0-0.safetensors" in text
    assert f"{10:012d} is damaged: rows/1-0.safetensors is missing" in text
    assert "is used" not in text


def test_a_run_that_went_back_behind_a_damaged_one_goes_on(two):
    folder, _ = two
    flip(folder / f"{20:012d}" / FILES[0], 100)
    with Checkpoints(folder) as checkpoints:
        checkpoints.begin(15, stores_of(*SPECS), {}, {"step": 15})
    checkpoint = newest(folder)
    assert (checkpoint.step, checkpoint.warnings) == (15, ())


def test_one_that_vanishes_between_finding_and_loading_is_a_sentence(two):
    folder, _ = two
    checkpoint = newest(folder)
    shutil.rmtree(checkpoint.path)
    with pytest.raises(CheckpointError, match="Was the checkpoint removed meanwhile"):
        load(checkpoint, stores_of(*SPECS))
