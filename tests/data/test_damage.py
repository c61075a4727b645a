"""Every kind of damage to a packed data set is an error that names the file."""

import json
import re
import shutil

import numpy as np
import pytest

from slipstream import DataError, Dataset, Lists, from_arrays, verify
from slipstream.data.inputs import Examples, Ragged
from slipstream.data.manifest import read_manifest


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    rng = np.random.default_rng(1)
    n = 300
    lists = Lists.of([rng.integers(0, 20, k).tolist() for k in rng.integers(0, 5, n)])
    out = tmp_path_factory.mktemp("whole") / "set"
    return from_arrays(
        labels=rng.integers(0, 2, n),
        columns={
            "one": rng.integers(0, 50, n),
            "many": lists,
            "word": rng.integers(0, 9, n).astype(str),
        },
        dense={"d": rng.random(n)},
        weights=rng.random(n),
        times=np.arange(n),
    ).save(out, rows_per_shard=100)


@pytest.fixture
def folder(whole, tmp_path):
    copy = tmp_path / "set"
    shutil.copytree(whole.folder, copy)
    return copy


def files(folder):
    return sorted(read_manifest(folder).files)


def test_an_undamaged_data_set_has_no_problems(folder):
    assert verify(folder) == []


def test_a_flipped_byte_in_any_file_is_found_by_verify_and_named(folder):
    for name in files(folder):
        path = folder / name
        data = bytearray(path.read_bytes())
        assert data, f"{name} is empty, so this test would miss it"
        data[len(data) // 2] ^= 0x10
        path.write_bytes(data)
        problems = verify(folder)
        assert len(problems) == 1
        assert str(path) in problems[0]
        data[len(data) // 2] ^= 0x10
        path.write_bytes(data)
    assert verify(folder) == []


def test_a_flipped_bit_anywhere_in_the_manifest_is_an_error_naming_it(folder):
    path = folder / "manifest.json"
    data = path.read_bytes()
    rng = np.random.default_rng(2)
    for place in rng.integers(0, len(data), 300):
        broken = bytearray(data)
        broken[place] ^= 1 << int(rng.integers(0, 8))
        path.write_bytes(broken)
        with pytest.raises(DataError, match=re.escape(str(path))):
            Dataset.open(folder)


def test_a_truncated_or_grown_file_is_an_error_on_opening_that_names_it(folder):
    for name in files(folder):
        path = folder / name
        data = path.read_bytes()
        for changed in (data[:-1], data + b"x", b""):
            path.write_bytes(changed)
            with pytest.raises(DataError, match=re.escape(str(path))):
                Dataset.open(folder)
        path.write_bytes(data)


def test_a_missing_file_is_an_error_on_opening_that_names_it(folder):
    for name in files(folder):
        path = folder / name
        data = path.read_bytes()
        path.unlink()
        with pytest.raises(DataError, match=re.escape(str(path)) + ".*missing"):
            Dataset.open(folder)
        path.write_bytes(data)


def test_another_version_is_an_error_that_says_so(folder):
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 2', 1))
    with pytest.raises(DataError, match="version 2"):
        Dataset.open(folder)


def test_a_manifest_of_something_else_is_an_error(folder):
    (folder / "manifest.json").write_text(json.dumps({"name": "web app"}))
    with pytest.raises(DataError, match="not the manifest of a slipstream data set"):
        Dataset.open(folder)


def _rewritten(folder, out, change):
    """A data set with right checksums and wrong contents: what a faulty writer would leave."""
    from slipstream.data.writer import DatasetWriter

    dataset = Dataset.open(folder)
    counts = {t.name: dataset.counts(t.name).copy() for t in dataset.schema.tables}
    inputs = [
        type(shard)(
            **{name: np.array(array) for name, array in shard.fixed().items()}, lists=shard.lists
        )
        for shard in dataset.train.shards
    ]
    change(inputs[0], counts)
    with DatasetWriter(out, dataset.schema, source={"kind": "test"}, rows_per_shard=100) as writer:
        for shard in inputs:
            writer.append("train", shard)
        known = {t.name: dataset.dictionary(t.name) for t in dataset.schema.tables}
        writer.finish(counts, known)
    return verify(out)


def test_an_id_out_of_range_is_named_with_file_column_and_value(folder, tmp_path, monkeypatch):
    def change(inputs, counts):
        inputs.ids[7, 0] = 51

    monkeypatch.setattr(Examples, "check_ids", lambda *_: None)
    problems = _rewritten(folder, tmp_path / "bad", change)
    assert any("00000.ids" in p and "id 51" in p and "'one'" in p for p in problems)


@pytest.mark.parametrize(
    ("field", "value"), [("labels", 2.0), ("dense", np.nan), ("weights", -1.0), ("times", 10**6)]
)
def test_a_wrong_value_is_named_with_its_file(folder, tmp_path, field, value):
    def change(inputs, counts):
        inputs.fixed()[field][3] = value

    problems = _rewritten(folder, tmp_path / "bad", change)
    assert any(f"00000.{field}" in problem for problem in problems)


def test_counts_that_do_not_match_are_named_with_their_file(folder, tmp_path):
    def change(inputs, counts):
        counts["one"][0] += 1

    problems = _rewritten(folder, tmp_path / "bad", change)
    assert len(problems) == 1
    assert "one.counts" in problems[0]


def test_a_file_that_the_manifest_does_not_know_is_named(folder):
    (folder / "train" / "00009.labels").write_bytes(b"abcd")
    (problem,) = verify(folder)
    assert str(folder / "train" / "00009.labels") in problem


def test_list_offsets_that_fall_are_named_with_their_file(folder, tmp_path, monkeypatch):
    def change(inputs, counts):
        offsets = np.array(inputs.lists["many"].offsets)
        offsets[5], offsets[4] = offsets[4], offsets[-1]
        inputs.lists["many"] = Ragged(inputs.lists["many"].values, offsets)

    monkeypatch.setattr(Examples, "check", lambda *_: None)
    problems = _rewritten(folder, tmp_path / "bad", change)
    assert any("many.offsets does not rise" in problem for problem in problems)
