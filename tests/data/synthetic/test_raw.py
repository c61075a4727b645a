from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slipstream.data.dataset import Dataset
from slipstream.data.encoder import decode
from slipstream.data.synthetic import generator
from slipstream.data.synthetic.generator import FIRST_TIME
from slipstream.data.synthetic.raw import write_raw
from slipstream.data.synthetic.shapes import SHAPES
from slipstream.data.synthetic.synth import Recipe, synthesize
from slipstream.errors import ConfigError, DataError

CRITEO = Recipe("criteo-kaggle", rows=3_000, seed=7)
TAOBAO = Recipe("taobao", rows=3_000, seed=7)


@pytest.fixture
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of millions of rows would cost seconds of ranking and show nothing more."""
    for name, shape in SHAPES.items():
        tables = tuple(replace(table, rows=min(table.rows, 2_000)) for table in shape.tables)
        monkeypatch.setitem(SHAPES, name, replace(shape, tables=tables))


def lines(recipe: Recipe, folder: Path) -> list[list[str]]:
    separator = "\t" if recipe is CRITEO else ","
    text = write_raw(recipe, folder / "log").read_bytes().decode("ascii")
    assert text.endswith("\n")
    assert "\r" not in text
    return [line.split(separator) for line in text[:-1].split("\n")]


@pytest.mark.usefixtures("small_tables")
def test_criteo_lines_are_the_examples_of_the_packed_data_set(tmp_path: Path) -> None:
    log = lines(CRITEO, tmp_path)
    dataset = Dataset.open(synthesize(CRITEO, tmp_path / "packed"))
    runs = [run for part in dataset.parts.values() for run in part.runs(0, len(part))]
    assert {len(fields) for fields in log} == {40}
    assert [fields[0] for fields in log] == [
        str(int(label)) for run in runs for label in run.labels
    ]
    dense = [[math.log1p(int(x)) if x else 0.0 for x in fields[1:14]] for fields in log]
    packed = np.concatenate([run.dense for run in runs])
    np.testing.assert_array_equal(packed, np.array(dense, dtype=np.float32))

    ids = np.concatenate([run.ids for run in runs])
    known = 0
    for place, column in enumerate(dataset.schema.singles):
        table, dictionary = dataset.schema.table(column.table), dataset.dictionary(column.table)
        for row, fields in zip(ids[:, place].tolist(), log, strict=True):
            if row != table.unseen:
                assert decode(row, table, dictionary) == (fields[14 + place] or "(missing)")
                known += 1
    assert known > 0.8 * ids.size


def test_criteo_values_are_eight_lower_case_hex_digits_or_empty(tmp_path: Path) -> None:
    by_column = list(zip(*lines(CRITEO, tmp_path), strict=True))[14:]
    for table, values in zip(SHAPES["criteo-kaggle"].tables, by_column, strict=True):
        assert ("" in values) == table.missing
        assert all(v == f"{int(v, 16):08x}" for v in values if v)


def test_a_missing_dense_value_is_empty_and_no_value_has_leading_zeros(tmp_path: Path) -> None:
    dense = [value for fields in lines(CRITEO, tmp_path) for value in fields[1:14]]
    assert 0.1 < dense.count("") / len(dense) < 0.4
    assert "0" in dense
    assert all(value == str(int(value)) for value in dense if value)


def test_taobao_events_have_five_fields_and_times_that_never_fall(tmp_path: Path) -> None:
    log = lines(TAOBAO, tmp_path)
    assert {len(fields) for fields in log} == {5}
    times = [int(fields[4]) for fields in log]
    assert times == sorted(times)
    assert times[0] == FIRST_TIME
    assert times[-1] < FIRST_TIME + SHAPES["taobao"].seconds


def test_taobao_behaviours_have_their_shares(tmp_path: Path) -> None:
    log = lines(TAOBAO, tmp_path)
    shares = {name: n / len(log) for name, n in Counter(fields[3] for fields in log).items()}
    assert shares == pytest.approx({"pv": 0.90, "cart": 0.06, "fav": 0.03, "buy": 0.01}, abs=0.02)


def test_a_taobao_item_has_one_category(tmp_path: Path) -> None:
    pairs = {(fields[1], fields[2]) for fields in lines(TAOBAO, tmp_path)}
    assert len(pairs) == len({item for item, _ in pairs}) > 100


@pytest.mark.parametrize("recipe", [CRITEO, TAOBAO], ids=lambda recipe: recipe.shape)
def test_bytes_do_not_depend_on_threads_and_chunks_but_on_the_seed(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generator, "THREADS", 1)
    whole = write_raw(recipe, tmp_path / "whole")
    monkeypatch.setattr(generator, "THREADS", 2)
    monkeypatch.setattr(generator, "CHUNK_VALUES", 777)
    pieces = write_raw(recipe, tmp_path / "pieces")
    assert whole.read_bytes() == pieces.read_bytes()
    other = write_raw(replace(recipe, seed=8), tmp_path / "other")
    assert whole.read_bytes() != other.read_bytes()


def test_an_existing_file_is_replaced_only_by_force(tmp_path: Path) -> None:
    out = tmp_path / "log"
    out.write_text("mine")
    with pytest.raises(DataError, match="exists already"):
        write_raw(TAOBAO, out)
    assert out.read_text() == "mine"
    write_raw(TAOBAO, out, force=True)
    assert out.read_text().count("\n") == TAOBAO.rows
    assert list(tmp_path.iterdir()) == [out]


def test_a_folder_is_not_replaced_even_by_force(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is a folder"):
        write_raw(TAOBAO, tmp_path, force=True)


def test_what_a_killed_run_left_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "log.partial").write_text("half a line")
    write_raw(Recipe("taobao", rows=10), tmp_path / "log")
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_a_failure_keeps_the_file_that_force_would_have_replaced(tmp_path: Path) -> None:
    def stop(rows: int) -> None:
        raise KeyboardInterrupt(rows)

    out = tmp_path / "log"
    out.write_text("mine")
    with pytest.raises(KeyboardInterrupt):
        write_raw(TAOBAO, out, force=True, progress=stop)
    assert [(path, path.read_text()) for path in tmp_path.iterdir()] == [(out, "mine")]


def test_progress_counts_every_row_once_and_parent_folders_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generator, "CHUNK_VALUES", 1_024 * 20)
    counts: list[int] = []
    out = tmp_path / "raw" / "events.csv"
    assert write_raw(TAOBAO, str(out), progress=counts.append) == out
    assert counts == [1_024, 1_024, 952]
    assert out.is_file()


def test_a_shape_without_a_raw_format_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="use shape criteo-kaggle or taobao"):
        write_raw(Recipe("small", rows=10), tmp_path / "log")
    assert list(tmp_path.iterdir()) == []
