"""Each raw format comes to the inputs that it stands for."""

from __future__ import annotations

import gzip
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import zstandard
from raw_logs import (
    WHOLE,
    avazu_rows,
    criteo_rows,
    decoded,
    digests,
    prepare_criteo,
    prepare_table,
    write,
)

from slipstream import Dataset, Recipe, synthesize, verify
from slipstream.data.formats import FORMATS, log_spec
from slipstream.data.prepare import Options, prepare
from slipstream.data.synthetic.raw import write_raw
from slipstream.data.synthetic.shapes import SHAPES
from slipstream.errors import ConfigError


@pytest.fixture
def small_tables(monkeypatch):
    """Tables of millions of rows would cost seconds of ranking and show nothing more."""
    for name, shape in SHAPES.items():
        tables = tuple(replace(table, rows=min(table.rows, 2_000)) for table in shape.tables)
        monkeypatch.setitem(SHAPES, name, replace(shape, tables=tables))


@pytest.mark.usefixtures("small_tables")
def test_a_raw_log_of_built_in_data_comes_to_the_packed_built_in_data(tmp_path):
    recipe = Recipe("criteo-kaggle", rows=5_000, seed=7)
    file = write_raw(recipe, tmp_path / "log.tsv")
    data = Dataset.open(prepare(log_spec("criteo", {}), [file], tmp_path / "out"))
    expected = Dataset.open(synthesize(recipe, tmp_path / "packed"))
    assert data.schema == expected.schema
    same = [n for n in expected.manifest.files if ".values" not in n and ".times" not in n]
    for name in same:  # labels, ids, dense values and counts, byte for byte
        assert data.manifest.files[name] == expected.manifest.files[name], name
    for table in data.schema.tables:
        first, other = data.dictionary(table.name), expected.dictionary(table.name)
        for row in range(table.rows):
            if row not in (table.unseen, table.missing):
                assert first.raw(row) == other.raw(row)


def test_avazu_has_a_time_and_its_hour_of_the_day(tmp_path):
    header, *rows = avazu_rows(300)
    file = write(tmp_path / "log.csv", [header, *rows], ",")
    options = Options(min_count=1, **WHOLE)
    data = Dataset.open(prepare(log_spec("avazu", {}), [file], tmp_path / "out", options))
    columns = decoded(data)
    assert columns.pop("hour") == [str(int(row[2][-2:])) for row in rows]
    assert columns == {name: [row[header.index(name)] for row in rows] for name in columns}
    (run,) = data.train.runs(0, 300)
    assert run.labels.tolist() == [int(row[1]) for row in rows]
    assert run.times.tolist() == [1_413_849_600 + number // 100 * 3600 for number in range(300)]


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
@pytest.mark.parametrize("line", ["\n", "\r\n"])
def test_compression_line_ends_and_several_files_change_nothing(tmp_path, ending, line):
    rows = criteo_rows(200)
    plain = prepare_criteo([write(tmp_path / "all", rows)], tmp_path / "plain")
    files = []
    for number, part in enumerate((rows[:70], rows[70:])):
        data = line.join("\t".join(row) for row in part).encode()  # without a last line end
        half = len(data) // 2
        pack = {
            "": lambda d: d,
            ".gz": gzip.compress,
            ".zst": zstandard.ZstdCompressor().compress,
        }[ending]
        # Two members one after the other are one file, as `cat a.gz b.gz` makes them.
        packed = pack(data[:half]) + pack(data[half:])
        files.append(tmp_path / f"day_{number}{ending}")
        files[-1].write_bytes(packed)
    data = prepare_criteo(files, tmp_path / "out")
    assert data.manifest.files == plain.manifest.files
    assert [file["rows"] for file in data.manifest.source["files"]] == [70, 130]


def test_dense_values_follow_the_stated_rule(tmp_path):
    rows = criteo_rows(4)
    for row, value in zip(rows, ["", "-3", "0", "7"], strict=True):
        row[1] = value
    data = prepare_criteo([write(tmp_path / "log", rows)], tmp_path / "out", **WHOLE)
    np.testing.assert_allclose(data.train.shards[0].dense[:, 0], [0, 0, 0, np.log(8)], rtol=1e-6)
    replaced = data.manifest.source["replaced"]
    assert replaced["I1 missing"] == 1
    assert replaced["I1 negative"] == 1


def test_transforms_are_those_of_the_schema(tmp_path):
    (tmp_path / "log.csv").write_text("click,u,a,b,c,d\n1,x,-4,-4,4,-4\n0,x,,,,\n")
    schema = {
        "label": "click",
        "categorical": ["u"],
        "dense": [
            "a",
            {"name": "b", "transform": "signed-log", "missing": -1},
            {"name": "c", "transform": "sqrt"},
            {"name": "d", "transform": "none", "missing": 9},
        ],
    }
    data = prepare_table(tmp_path, [tmp_path / "log.csv"], schema, **WHOLE)
    expected = [[0, -np.log(5), 2, -4], [0, -1, 0, 9]]
    np.testing.assert_allclose(data.train.shards[0].dense, expected, rtol=1e-6)


def taobao_events(count: int) -> list[list[str]]:
    rng = np.random.default_rng(3)
    events = []
    for _ in range(count):
        item = int(rng.zipf(1.4)) % 50
        when = int(rng.integers(1_511_539_200, 1_511_539_200 + 2000))
        events.append([str(rng.integers(0, 12)), str(item), str(item % 7), "pv", str(when)])
    return events


@pytest.mark.parametrize("split", ["time", "random"])
def test_taobao_has_the_next_item_the_history_and_negatives(tmp_path, split):
    events = taobao_events(400)
    file = write(tmp_path / "log.csv", events, ",")
    spec = log_spec("taobao", {"history": 4, "negatives": 2, "seed": 5})
    data = Dataset.open(prepare(spec, [file], tmp_path / "out", Options(min_count=1, split=split)))
    assert verify(tmp_path / "out") == []
    in_time = sorted(events, key=lambda event: int(event[4]))
    history, expected = defaultdict(list), {}
    for user, item, _, _, when in in_time:
        expected.setdefault((user, when, item), []).append(history[user][-4:])
        history[user].append(item)
    positives = 0
    for part in data.parts:
        columns = decoded(data, part)
        labels = [x for run in data.parts[part].runs(0, len(data.parts[part])) for x in run.labels]
        times = [x for run in data.parts[part].runs(0, len(data.parts[part])) for x in run.times]
        last = None
        for row, label in enumerate(labels):
            user, item, items = (columns[name][row] for name in ("user", "item", "items"))
            if "(unseen)" in (user, item, *items):
                continue  # first met outside of the training part
            assert columns["categories"][row] == [str(int(first) % 7) for first in items]
            assert columns["category"][row] in (str(int(item) % 7), "(unseen)")
            if label:
                positives += 1
                assert items in expected[user, str(times[row]), item]
                last = (user, item, items)
            elif last is not None and last[0] == user and last[2] == items:
                assert item != last[1]  # a negative is another item
    assert positives > 300
    source = data.manifest.source
    inputs = sum(part.rows for part in data.manifest.parts.values())
    assert inputs == 3 * source["rows_read"] - source["negatives"]["not_found"]


def test_negatives_that_cannot_be_found_are_counted(tmp_path):
    file = write(tmp_path / "log.csv", [["1", "5", "2", "pv", str(t)] for t in range(4)], ",")
    data = Dataset.open(prepare(log_spec("taobao", {}), [file], tmp_path / "out", Options(**WHOLE)))
    assert data.manifest.source["negatives"]["not_found"] == 4
    assert len(data.train) == 4


def test_histories_of_a_labelled_log_hold_clicks_only(tmp_path):
    rows = ["1,a,x,1", "0,a,y,2", "1,a,z,3", "1,b,x,4", "0,,z,5", "1,,z,6", "0,a,x,7"]
    (tmp_path / "log.csv").write_text("click,user,item,time\n" + "\n".join(rows) + "\n")
    schema = {
        "label": "click",
        "categorical": ["user", "item"],
        "time": "time",
        "history": {"user": "user", "length": 9, "of": "item"},
    }
    data = prepare_table(tmp_path, [tmp_path / "log.csv"], schema, min_count=1, **WHOLE)
    shown = decoded(data)["item_history"]
    assert shown == [[], ["x"], ["x"], [], [], [], ["x", "z"]]


def test_columns_may_share_a_table_and_take_the_hour(tmp_path):
    rows = ["1,a,b,2017-11-07 9:30", "0,b,a,2017-11-07 23:05"]
    (tmp_path / "log.csv").write_text("click,from,to,when\n" + "\n".join(rows) + "\n")
    schema = {
        "label": "click",
        "categorical": [
            {"name": "from", "table": "place"},
            {"name": "to", "table": "place"},
            {"name": "hour", "values": "hour"},
        ],
        "time": {"field": "when", "format": "%Y-%m-%d %H:%M"},
    }
    data = prepare_table(tmp_path, [tmp_path / "log.csv"], schema, min_count=1, **WHOLE)
    assert [table.name for table in data.schema.tables] == ["place", "hour"]
    assert decoded(data) == {"from": ["a", "b"], "to": ["b", "a"], "hour": ["9", "23"]}
    assert data.train.shards[0].times.tolist() == [1510047000, 1510095900]


def test_an_unknown_format_or_option_names_the_near_one():
    with pytest.raises(ConfigError, match=r"Did you mean criteo\?"):
        log_spec("critoe", {})
    with pytest.raises(ConfigError, match="--history is not for criteo logs, only for taobao"):
        log_spec("criteo", {"history": 3})
    with pytest.raises(ConfigError, match="needs --schema"):
        log_spec("table", {})
    assert list(FORMATS) == ["criteo", "avazu", "taobao", "table"]


def test_the_schemas_in_examples_are_schemas():
    examples = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
    assert len(examples) >= 2
    for example in examples:
        assert log_spec("table", {"schema": example}).columns


def test_the_same_log_twice_gives_the_same_bytes(tmp_path):
    file = write(tmp_path / "log.tsv", criteo_rows(300))
    prepare_criteo([file], tmp_path / "one")
    prepare_criteo([file], tmp_path / "two")
    assert digests(tmp_path / "one") == digests(tmp_path / "two")


@pytest.mark.parametrize("padding", [1, 1 << 14, 1 << 16, 100_001])
def test_zeros_behind_a_compressed_file_are_padding(tmp_path, padding):
    rows = criteo_rows(50)
    text = "".join("\t".join(row) + "\n" for row in rows).encode()
    half = text.index(b"\n", len(text) // 2) + 1
    packed = gzip.compress(text[:half]) + b"\0" * padding + gzip.compress(text[half:])
    (tmp_path / "log.tsv.gz").write_bytes(packed + b"\0" * padding)
    data = prepare_criteo([tmp_path / "log.tsv.gz"], tmp_path / "out")
    assert data.manifest.source["rows_read"] == 50


@pytest.mark.parametrize("name", ["LOG.TSV.GZ", "log.Tsv.ZST", "LOG.PARQUET", "LOG.TSV", "LOG.PQ"])
def test_endings_may_be_written_in_capitals(tmp_path, name):
    text = "click\tshop\n" + "1\tmill,1\n0\tmill,1\n" * 5
    if name.lower().endswith((".parquet", ".pq")):
        frame = pl.read_csv(text.encode(), separator="\t")
        frame.write_parquet(tmp_path / name)
    else:
        pack = {".gz": gzip.compress, ".zst": zstandard.compress}
        (tmp_path / name).write_bytes(pack.get(Path(name).suffix.lower(), bytes)(text.encode()))
    data = prepare_table(tmp_path, [tmp_path / name], {"label": "click", "categorical": ["shop"]})
    assert data.dictionary("shop").raw(0) == "mill,1"
