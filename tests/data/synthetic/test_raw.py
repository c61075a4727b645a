from __future__ import annotations

import gzip
import math
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

from slipstream.data.dataset import Dataset
from slipstream.data.dictionary import decode
from slipstream.data.synthetic import generator
from slipstream.data.synthetic.generator import FIRST_TIME
from slipstream.data.synthetic.raw import write_raw
from slipstream.data.synthetic.shapes import SHAPES
from slipstream.data.synthetic.synth import Recipe, synthesize
from slipstream.errors import ConfigError, DataError

AVAZU_HEADER = (
    "id,click,hour,C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain,app_category,"
    "device_id,device_ip,device_model,device_type,device_conn_type,"
    "C14,C15,C16,C17,C18,C19,C20,C21"
)
RECIPES = {
    "criteo": Recipe("criteo-kaggle", rows=3_000, seed=7),
    "avazu": Recipe("avazu", rows=3_000, seed=7),
    "taobao": Recipe("taobao", rows=3_000, seed=7),
}
FORMATS = list(RECIPES)


@pytest.fixture
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of millions of rows would cost seconds of ranking and show nothing more."""
    for name, shape in SHAPES.items():
        tables = tuple(replace(table, rows=min(table.rows, 2_000)) for table in shape.tables)
        monkeypatch.setitem(SHAPES, name, replace(shape, tables=tables))


def lines(format: str, folder: Path) -> list[list[str]]:
    separator = "\t" if format == "criteo" else ","
    text = write_raw(RECIPES[format], format, folder / format).read_bytes().decode("ascii")
    assert text.endswith("\n")
    assert "\r" not in text
    return [line.split(separator) for line in text[:-1].split("\n")]


@pytest.mark.usefixtures("small_tables")
def test_criteo_lines_are_the_inputs_of_the_packed_data_set(tmp_path: Path) -> None:
    log = lines("criteo", tmp_path)
    dataset = Dataset.open(synthesize(RECIPES["criteo"], tmp_path / "packed"))
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


@pytest.mark.usefixtures("small_tables")
def test_avazu_lines_are_the_inputs_of_the_packed_data_set(tmp_path: Path) -> None:
    log = lines("avazu", tmp_path)[1:]
    dataset = Dataset.open(synthesize(replace(RECIPES["avazu"], min_count=0), tmp_path / "packed"))
    runs = [run for part in dataset.parts.values() for run in part.runs(0, len(part))]
    assert [int(fields[1]) for fields in log] == [x for run in runs for x in run.labels.tolist()]
    ids = np.concatenate([run.ids for run in runs])
    for place, column in enumerate(dataset.schema.singles):
        table, dictionary = dataset.schema.table(column.table), dataset.dictionary(column.table)
        decoded = [decode(row, table, dictionary) for row in ids[:, place].tolist()]
        field = [fields[2 + place] for fields in log]
        assert decoded == ([str(int(x[-2:])) for x in field] if column.name == "hour" else field)


def test_criteo_values_are_eight_lower_case_hex_digits_or_empty(tmp_path: Path) -> None:
    log = lines("criteo", tmp_path)
    by_column = list(zip(*log, strict=True))[14:]
    for table, values in zip(SHAPES["criteo-kaggle"].tables, by_column, strict=True):
        assert ("" in values) == table.missing
        assert all(v == f"{int(v, 16):08x}" for v in values if v)


def test_a_missing_dense_value_is_empty_and_no_value_has_leading_zeros(tmp_path: Path) -> None:
    dense = [value for fields in lines("criteo", tmp_path) for value in fields[1:14]]
    assert 0.1 < dense.count("") / len(dense) < 0.4
    assert "0" in dense
    assert all(value == str(int(value)) for value in dense if value)


def test_avazu_has_its_header_and_distinct_ids(tmp_path: Path) -> None:
    log = lines("avazu", tmp_path)
    assert ",".join(log[0]) == AVAZU_HEADER
    assert {len(fields) for fields in log} == {24}
    ids = [fields[0] for fields in log[1:]]
    assert len(set(ids)) == len(ids) == RECIPES["avazu"].rows
    assert all(text == str(int(text)) and int(text) < 2**64 for text in ids)


def test_avazu_hours_are_those_of_the_inputs_times(tmp_path: Path) -> None:
    hours = [fields[2] for fields in lines("avazu", tmp_path)[1:]]
    rows, seconds = RECIPES["avazu"].rows, SHAPES["avazu"].seconds
    start = datetime.fromtimestamp(FIRST_TIME, tz=timezone.utc)
    times = [start + timedelta(seconds=row * seconds // rows) for row in range(rows)]
    assert hours == [time.strftime("%y%m%d%H") for time in times]


def test_taobao_events_have_five_fields_and_times_that_never_fall(tmp_path: Path) -> None:
    log = lines("taobao", tmp_path)
    assert {len(fields) for fields in log} == {5}
    times = [int(fields[4]) for fields in log]
    assert times == sorted(times)
    assert times[0] == FIRST_TIME
    assert times[-1] < FIRST_TIME + SHAPES["taobao"].seconds


def test_taobao_behaviours_have_their_shares(tmp_path: Path) -> None:
    log = lines("taobao", tmp_path)
    shares = {name: n / len(log) for name, n in Counter(fields[3] for fields in log).items()}
    assert shares == pytest.approx({"pv": 0.90, "cart": 0.06, "fav": 0.03, "buy": 0.01}, abs=0.02)


def test_a_taobao_item_has_one_category(tmp_path: Path) -> None:
    pairs = {(fields[1], fields[2]) for fields in lines("taobao", tmp_path)}
    assert len(pairs) == len({item for item, _ in pairs}) > 100


@pytest.mark.parametrize("ending", ["log", "log.gz"])
@pytest.mark.parametrize("format", FORMATS)
def test_bytes_do_not_depend_on_threads_and_chunks(
    format: str, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generator, "THREADS", 1)
    whole = write_raw(RECIPES[format], format, tmp_path / f"whole.{ending}")
    monkeypatch.setattr(generator, "THREADS", 2)
    monkeypatch.setattr(generator, "CHUNK_VALUES", 777)
    pieces = write_raw(RECIPES[format], format, tmp_path / f"pieces.{ending}")
    assert whole.read_bytes() == pieces.read_bytes()


def test_another_seed_gives_another_log(tmp_path: Path) -> None:
    first = write_raw(RECIPES["taobao"], "taobao", tmp_path / "one")
    two = write_raw(replace(RECIPES["taobao"], seed=8), "taobao", tmp_path / "two")
    assert first.read_bytes() != two.read_bytes()


@pytest.mark.parametrize("format", FORMATS)
def test_a_gz_file_holds_the_same_log_and_the_same_bytes_every_time(
    format: str, tmp_path: Path
) -> None:
    plain = write_raw(RECIPES[format], format, tmp_path / "log")
    first = write_raw(RECIPES[format], format, tmp_path / "one.gz")
    two = write_raw(RECIPES[format], format, tmp_path / "two.gz")
    assert gzip.decompress(first.read_bytes()) == plain.read_bytes()
    assert first.read_bytes() == two.read_bytes()


def test_an_existing_file_is_replaced_only_by_force(tmp_path: Path) -> None:
    out = tmp_path / "log"
    out.write_text("mine")
    with pytest.raises(DataError, match="exists already"):
        write_raw(RECIPES["taobao"], "taobao", out)
    assert out.read_text() == "mine"
    write_raw(RECIPES["taobao"], "taobao", out, force=True)
    assert out.read_text().count("\n") == RECIPES["taobao"].rows
    assert list(tmp_path.iterdir()) == [out]


def test_a_folder_is_not_replaced_even_by_force(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is a folder"):
        write_raw(RECIPES["taobao"], "taobao", tmp_path, force=True)


def test_what_a_killed_run_left_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "log.partial").write_text("half a line")
    write_raw(Recipe("taobao", rows=10), "taobao", tmp_path / "log")
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


@pytest.mark.parametrize("ending", ["log", "log.gz"])
def test_a_failure_leaves_nothing_behind(ending: str, tmp_path: Path) -> None:
    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_raw(RECIPES["taobao"], "taobao", tmp_path / ending, progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_keeps_the_file_that_force_would_have_replaced(tmp_path: Path) -> None:
    def stop(rows: int) -> None:
        raise RuntimeError(rows)

    out = tmp_path / "log"
    out.write_text("mine")
    with pytest.raises(RuntimeError):
        write_raw(RECIPES["taobao"], "taobao", out, force=True, progress=stop)
    assert [(path, path.read_text()) for path in tmp_path.iterdir()] == [(out, "mine")]


def test_parent_folders_are_made(tmp_path: Path) -> None:
    out = tmp_path / "raw" / "taobao" / "events.csv"
    assert write_raw(RECIPES["taobao"], "taobao", str(out)) == out
    assert out.is_file()


def test_progress_is_told_every_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "CHUNK_VALUES", 1_024 * 20)
    done: list[int] = []
    write_raw(RECIPES["taobao"], "taobao", tmp_path / "log", progress=done.append)
    assert done == [1_024, 1_024, 952]


@pytest.mark.parametrize("format", FORMATS)
def test_another_shape_is_an_error_that_names_the_right_one(format: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"use shape {RECIPES[format].shape}"):
        write_raw(Recipe("small", rows=10), format, tmp_path / "log")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_format_is_an_error_that_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"mean criteo\? Choose from criteo, avazu, taobao"):
        write_raw(RECIPES["criteo"], "critoe", tmp_path / "log")
