"""Every kind of bad input, at start, middle and end of a file: named, and nothing left behind."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import zstandard
from raw_logs import (
    WHOLE,
    criteo_rows,
    decoded,
    prepare_criteo,
    prepare_table,
    schema_file,
    write,
)

from slipstream import DataError, verify
from slipstream.data.formats import log_spec
from slipstream.data.prepare import Options, prepare
from slipstream.errors import ConfigError

ROWS = 60
PLACES = {"start": 0, "middle": ROWS // 2, "end": ROWS - 1}


def line(fields):
    return "\t".join(fields).encode("latin-1")


def replaced(column, value):
    """A function that returns a line of a row with another value in one column."""
    return lambda row: line([*row[:column], value, *row[column + 1 :]])


# For each kind of bad row: how it is made of a good one, the error, and the reason in the counts.
KINDS = {
    "short": (lambda row: line(row[:-1]), "39 fields instead of 40", "wrong field count"),
    "long": (lambda row: line([*row, "x"]), "41 fields instead of 40", "wrong field count"),
    "blank": (lambda row: b"", "the line is blank", "blank line"),
}
for column, value, problem, reason in [
    (20, "\xff\xfe", r"'C7' has b'\xff\xfe', which is not UTF-8 (byte 0xff)", "bad UTF-8"),
    (3, "12a", "'I3' has '12a' instead of a number", "bad value in I3"),
    (3, "inf", "'I3' has 'inf' instead of a number", "bad value in I3"),
    (39, "0000000g", "'C26' has '0000000g' instead of 8 hex digits", "bad value in C26"),
    (39, "abc", "'C26' has 'abc' instead of 8 hex digits", "bad value in C26"),
    (39, "0000000A", "'C26' has '0000000A' instead of 8 hex digits", "bad value in C26"),
    (0, "", "'click' has nothing instead of a label", "missing label in click"),
    (0, "2", "'click' has '2' instead of a label", "bad label in click"),
]:
    KINDS[f"{column} {value!r}"] = (replaced(column, value), f"column {problem}", reason)


def spoiled(path: Path, kind, places: list[int]) -> Path:
    lines = [line(row) for row in criteo_rows(ROWS)]
    for place in places:
        lines[place] = KINDS[kind][0](criteo_rows(ROWS)[place])
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_row_is_named_and_nothing_is_written(tmp_path, kind, place):
    file = spoiled(tmp_path / "log.tsv", kind, [PLACES[place]])
    with pytest.raises(DataError) as error:
        prepare_criteo([file], tmp_path / "out")
    assert f"{file}, line {PLACES[place] + 1}: " in str(error.value)
    assert KINDS[kind][1] in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["log.tsv"]


@pytest.mark.parametrize("kind", KINDS)
def test_bad_rows_are_set_aside_counted_and_listed(tmp_path, kind):
    places = sorted(PLACES.values())
    file = spoiled(tmp_path / "log.tsv", kind, places)
    result = prepare_criteo([file], tmp_path / "out", bad_rows="skip")
    good = [row for place, row in enumerate(criteo_rows(ROWS)) if place not in places]
    expected = prepare_criteo([write(tmp_path / "good.tsv", good)], tmp_path / "good")
    for name, info in result.manifest.files.items():
        if name != "bad_rows.tsv":
            assert info == expected.manifest.files[name], name
    assert result.manifest.bad_rows == {KINDS[kind][2]: 3}
    source = result.manifest.source
    assert (source["rows_read"], source["rows_set_aside"]) == (ROWS, 3)
    lines = (tmp_path / "out" / "bad_rows.tsv").read_text().splitlines()
    assert lines[0] == "file\tline\treason\twhat"
    assert [line.split("\t")[:3] for line in lines[1:]] == [
        [str(file), str(place + 1), KINDS[kind][2]] for place in places
    ]
    assert verify(tmp_path / "out") == []


def test_more_bad_rows_than_allowed_stop_the_run(tmp_path):
    file = spoiled(tmp_path / "log.tsv", "short", [3, 7, 11])
    prepare_criteo([file], tmp_path / "out", bad_rows="skip", max_bad=3)
    with pytest.raises(DataError, match=r"line 12: .* bad row number 3; --max-bad allows 2"):
        prepare_criteo([file], tmp_path / "other", bad_rows="skip", max_bad=2)
    assert not (tmp_path / "other").exists()
    assert not (tmp_path / "other.partial").exists()


def test_a_header_where_none_belongs_is_named(tmp_path):
    names = ["label", *(f"I{n}" for n in "abcdefghijklm"), *("C" for _ in range(26))]
    file = write(tmp_path / "log.tsv", [names, *criteo_rows(5)])
    with pytest.raises(DataError, match=r"line 1: .*'label'.* looks like a header"):
        prepare_criteo([file], tmp_path / "out")


@pytest.mark.parametrize("names", ["user,item,category,behaviour,time", "u,i,c,b,timestamp"])
def test_a_header_is_named_where_the_first_column_is_not_the_first_one_read(tmp_path, names):
    file = tmp_path / "log.csv"
    file.write_text(f"{names}\n" + "7,8,9,pv,1511544070\n" * 3)
    with pytest.raises(DataError, match=r"log\.csv, line 1: column 'time' .* looks like a header"):
        prepare(log_spec("taobao", {}), [file], tmp_path / "out")
    file.write_text("7,8,9,pv,never\n" + "7,8,9,pv,1511544070\n" * 3)
    with pytest.raises(DataError, match="line 1: column 'time' has 'never' instead of a time"):
        prepare(log_spec("taobao", {}), [file], tmp_path / "out")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes: not tested here")
def test_a_pipe_is_told_from_a_file_that_does_not_exist(tmp_path):
    os.mkfifo(tmp_path / "log.tsv")
    with pytest.raises(DataError, match=r"log\.tsv is no file but a pipe"):
        prepare_criteo([tmp_path / "log.tsv"], tmp_path / "out")


@pytest.mark.parametrize("ending", [".gz", ".zst"])
@pytest.mark.parametrize("damage", [0.2, 0.9, 0.999, "flip"])
def test_a_damaged_compressed_file_is_named_with_its_last_line(tmp_path, ending, damage):
    text = "".join("\t".join(row) + "\n" for row in criteo_rows(400)).encode()
    packed = bytearray(gzip.compress(text) if ending == ".gz" else zstandard.compress(text))
    if damage == "flip":
        packed[len(packed) // 2] ^= 0xFF
    else:
        del packed[int(len(packed) * damage) :]
    file = tmp_path / f"log.tsv{ending}"
    file.write_bytes(packed)
    for bad_rows in ("error", "skip"):
        with pytest.raises(DataError, match=r"log\.tsv\..* is damaged or cut off after line \d+"):
            prepare_criteo([file], tmp_path / "out", bad_rows=bad_rows)
        assert [path.name for path in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize("names", [None, ["shop", "tags"]])
def test_the_first_line_may_be_as_long_as_any_other(tmp_path, names):
    tags = " ".join(map(str, range(150_000)))
    first = f"a,{tags}" if names else f'shop,tags,"{tags}"'
    file = tmp_path / "log.csv"
    file.write_text(f"{first}\n" + ("a,1 2\n" if names else "a,1 2,\n") * 3)
    schema = {"categorical": ["shop"], "lists": [{"name": "tags", "values": "int"}]}
    result = prepare_table(tmp_path, [file], {**schema, "names": names}, **WHOLE)
    assert result.manifest.source["rows_read"] == (4 if names else 3)


@pytest.mark.parametrize("name", ["log.tsv", "log.tsv.gz", "log.tsv.zst"])
def test_an_empty_file_is_an_error(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(DataError, match="empty"):
        prepare_criteo([tmp_path / name], tmp_path / "out")


def test_a_table_needs_the_columns_that_its_schema_names(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("click,user\n1,a\n")
    with pytest.raises(DataError, match=r"no column 'usr'.* Did you mean user\?"):
        prepare_table(tmp_path, [file], {"label": "click", "categorical": ["usr"]})
    file.write_text("click,user\n")
    with pytest.raises(DataError, match="has a header and no rows"):
        prepare_table(tmp_path, [file], {"label": "click", "categorical": ["user"]})


@pytest.mark.parametrize(
    ("column", "values", "schema", "words"),
    [
        ("user", [1.5, 2.5], {"categorical": ["user"]}, "Float64, which does not fit"),
        ("user", [1, 2], {"categorical": [{"name": "user", "values": "hex"}]}, "Int64"),
        ("user", ["a", "b"], {"categorical": [{"name": "user", "values": "int"}]}, "'a'"),
        ("price", ["x", "2"], {"categorical": ["shop"], "dense": ["price"]}, "'x'"),
        ("price", [[1], [2]], {"categorical": ["shop"], "dense": ["price"]}, "no number"),
        ("when", [0.5, 1.5], {"categorical": ["shop"], "time": "when"}, "no time"),
        ("tags", [1, 2], {"categorical": ["shop"], "lists": ["tags"]}, "no list"),
        ("user", [1.5, 2.5], {"categorical": [{"name": "user", "values": "text"}]}, "Float64"),
        ("user", [[1], [2]], {"categorical": [{"name": "user", "values": "text"}]}, "List(Int64)"),
        ("user", [[1], [2]], {"categorical": ["user"]}, "List(Int64)"),
        ("user", [b"a", b"b"], {"categorical": [{"name": "user", "values": "text"}]}, "Binary"),
        ("user", [True, False], {"categorical": [{"name": "user", "values": "text"}]}, "Boolean"),
    ],
)
def test_a_parquet_type_that_does_not_fit_is_named(tmp_path, column, values, schema, words):
    frame = pl.DataFrame({"click": [0, 1], "shop": ["a", "b"], column: values})
    frame.write_parquet(tmp_path / "log.parquet")
    with pytest.raises(DataError) as error:
        prepare_table(tmp_path, [tmp_path / "log.parquet"], {"label": "click", **schema})
    assert words in str(error.value)
    assert repr(column) in str(error.value)


@pytest.mark.parametrize(
    ("values", "schema", "words"),
    [
        (["u1", "u2"], "user", "is of type String, but in {first} it is of type Int64"),
        ([0.5, 1.5], "user", "is of type Float64, which does not fit"),
        ([0.5, 1.5], {"name": "user", "values": "text"}, "is of type Float64"),
        ([0.5, 1.5], {"name": "user", "values": "int"}, "is of type Float64"),
        (None, "user", "is text, but in {first} it is of type Int64"),
    ],
)
def test_every_file_is_of_the_types_of_the_first(tmp_path, values, schema, words):
    first, second = tmp_path / "day1.parquet", tmp_path / "day2.parquet"
    pl.DataFrame({"click": [0, 1], "user": [1, 2]}).write_parquet(first)
    if values is None:
        second = tmp_path / "day2.csv"
        second.write_text("click,user\n1,a\n")
    else:
        pl.DataFrame({"click": [0, 1], "user": values}).write_parquet(second)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(DataError) as error:
        log = {"label": "click", "categorical": [schema]}
        prepare_table(tmp_path, [first, second], log, bad_rows="skip")
    assert f"{second}: column 'user' " + words.format(first=first) in str(error.value)
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / "schema.yaml"])


def test_files_of_different_types_are_one_log_where_the_schema_says_what_they_are(tmp_path):
    first, second = tmp_path / "day1.parquet", tmp_path / "day2.parquet"
    pl.DataFrame({"click": [0, 1], "user": [1, 2]}).write_parquet(first)
    pl.DataFrame({"click": [0, 1], "user": ["2", "1"]}).write_parquet(second)
    for kind in ("int", "text"):
        schema = {"label": "click", "categorical": [{"name": "user", "values": kind}]}
        result = prepare_table(tmp_path, [first, second], schema, **WHOLE)
        assert decoded(result)["user"] == ["1", "2", "2", "1"]


def test_text_that_is_no_parquet_is_an_error(tmp_path):
    (tmp_path / "log.parquet").write_text("click,user\n1,a\n")
    with pytest.raises(DataError, match="not a Parquet file"):
        prepare_table(
            tmp_path, [tmp_path / "log.parquet"], {"label": "click", "categorical": ["user"]}
        )


def test_whole_numbers_in_text_must_be_written_in_one_way(tmp_path):
    file = tmp_path / "log.csv"
    for value in ("007", "+7", "-0", " 7", "7.0", str(2**63)):
        file.write_text(f"click,user\n1,{value}\n")
        schema = {"label": "click", "categorical": [{"name": "user", "values": "int"}]}
        with pytest.raises(DataError, match="line 2: column 'user' has"):
            prepare_table(tmp_path, [file], schema)


@pytest.mark.parametrize("weight", ["-1", "-1e-300", "1e39", "nan", ""])
def test_a_weight_that_no_number_of_32_bits_holds_is_named(tmp_path, weight):
    file = tmp_path / "log.csv"
    file.write_text(f"click,shop,weight\n1,a,3e38\n1,a,{weight}\n")
    schema = {"label": "click", "categorical": ["shop"], "weight": "weight"}
    with pytest.raises(DataError, match=r"line 3: column 'weight' has .* instead of a weight"):
        prepare_table(tmp_path, [file], schema)


@pytest.mark.parametrize("header", ["click,shop,z,z", "click,shop,,"])
def test_columns_that_nobody_asks_for_may_be_called_anything(tmp_path, header):
    file = tmp_path / "log.csv"
    file.write_text(f"{header}\n" + "1,a,,\n0,b,x,y\n" * 3)
    result = prepare_table(tmp_path, [file], {"label": "click", "categorical": ["shop"]})
    assert sum(part.rows for part in result.manifest.parts.values()) == 6


@pytest.mark.parametrize("format", ["%Y-%m-%d %X", "%Y-%m-%d %k:%M:%S"])
def test_the_time_of_day_is_kept_however_it_is_asked_for(tmp_path, format):
    file = tmp_path / "log.csv"
    rows = [f"1,u,2020-01-01 {hour:02}:30:00\n" for hour in (10, 11, 12)]
    file.write_text("click,user,when\n" + "".join(rows))
    time = {"field": "when", "format": format}
    schema = {"label": "click", "categorical": ["user"], "time": time}
    result = prepare_table(tmp_path, [file], schema, evaluation=0, validation=0)
    assert np.diff(result.train.shards[0].times).tolist() == [3600, 3600]


def test_a_time_format_without_a_date_is_an_error(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("click,user,when\n1,u,10:30\n")
    time = {"field": "when", "format": "%H:%M"}
    schema = {"label": "click", "categorical": ["user"], "time": time}
    with pytest.raises(DataError, match="names no date"):
        prepare_table(tmp_path, [file], schema)


def test_time_that_falls_is_an_error_with_its_line_and_sorted_on_request(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("click,user,time\n" + "".join(f"1,u,{t}\n" for t in (5, 7, 7, 6, 9)))
    schema = {"label": "click", "categorical": ["user"], "time": "time"}
    with pytest.raises(DataError, match=r"log\.csv, line 5: column 'time': time falls .*--sort"):
        prepare_table(tmp_path, [file], schema)
    result = prepare_table(tmp_path, [file], {**schema, "sort": "time"}, evaluation=0, validation=0)
    assert result.train.shards[0].times.tolist() == [5, 6, 7, 7, 9]


def test_an_existing_data_set_is_kept_unless_forced(tmp_path):
    file = write(tmp_path / "log.tsv", criteo_rows(30))
    spec = log_spec("criteo", {})
    prepare(spec, [file], tmp_path / "out")
    with pytest.raises(DataError, match="already holds a data set"):
        prepare(spec, [file], tmp_path / "out")
    prepare(spec, [file], tmp_path / "out", force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.tsv", "out"]


def test_a_disk_without_room_is_told_before_anything_is_written(tmp_path, monkeypatch):
    from slipstream.data.prepare import resource_limits

    file = write(tmp_path / "log.tsv", criteo_rows(30))
    monkeypatch.setattr(resource_limits.shutil, "disk_usage", lambda _: SimpleNamespace(free=10))
    with pytest.raises(DataError, match=r"needs about .* GB of disk"):
        prepare(log_spec("criteo", {}), [file], tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["log.tsv"]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"lable": "click", "categorical": ["a"]}, "Did you mean label?"),
        ({"label": "click"}, "names no column"),
        ({"categorical": ["a"], "sort": "time"}, "no column is named as `time`"),
        ({"categorical": ["a"], "sort": "user"}, "sort is 'user'"),
        (
            {"label": "x", "categorical": ["a"], "negatives": {"per_positive": 1, "from": "a"}},
            "are for logs of clicks only",
        ),
        ({"categorical": ["a"], "negatives": {"per_positive": 0, "from": "a"}}, "per_positive 0"),
        ({"categorical": ["a"], "negatives": {"per_positive": 1, "from": "b"}}, "from 'b'"),
        (
            {"categorical": ["item"], "negatives": {"per_positive": 1, "from": "itm"}},
            "which is no categorical column. Did you mean item? Choose from item.",
        ),
        ({"categorical": ["a"], "history": {"user": "a", "length": 3}}, "needs `of`"),
        ({"categorical": ["a", "a"]}, "'a' is given twice"),
        ({"categorical": [{"name": "a", "values": "hax"}]}, "values 'hax'"),
        ({"categorical": ["a"], "dense": [{"name": "b", "transform": "cube"}]}, "'cube'"),
        ({"categorical": "a"}, "give a list"),
        ({"categorical": ["a"], "separator": ";;"}, "separator is ';;'"),
        ({"categorical": [{"name": "a", "values": "hour"}]}, "there is no time"),
        ({"categorical": [{"name": "a", "field": 3}]}, "has 3 where a name belongs"),
        ({"categorical": ["a"], "negatives": {"per_positive": 1, "from": []}}, "at least one"),
        ({"categorical": ["a"], "history": {"user": [], "length": 3, "of": "a"}}, "at least one"),
        ({"categorical": ["a"], "dense": [{"name": "b", "missing": 1e300}]}, "a finite number"),
    ],
)
def test_a_schema_that_makes_no_sense_is_told_so(tmp_path, schema, words):
    with pytest.raises(ConfigError) as error:
        log_spec("table", {"schema": schema_file(tmp_path, **schema)})
    assert words in str(error.value)
    assert "schema.yaml" in str(error.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"min_count": 0}, "at least 1"),
        ({"max_rows": 3}, "at least 16"),
        ({"hash": 0}, "hash is 0"),
        ({"hash": 9, "max_rows": 99}, "exclude each other"),
        ({"validation": 0.5, "evaluation": 0.5}, "leave a share for training"),
        ({"evaluation": "day", "split": "random"}, "random split"),
        ({"evaluation": "week"}, "evaluation is week"),
        ({"split": "user"}, "split is 'user'"),
        ({"bad_rows": "drop"}, "bad_rows is 'drop'"),
        ({"extend": True}, "extend needs a dictionary"),
        ({"seed": 10**20, "split": "random"}, "seed is"),
        ({"seed": 3}, "a split by time draws nothing"),
        ({"seed": 0}, "a split by time draws nothing"),
        ({"max_bad": 1000}, "add --bad-rows skip"),
    ],
)
def test_options_that_make_no_sense_are_told_so(options, words):
    with pytest.raises(ConfigError) as error:
        Options(**options)
    assert words in str(error.value)


def test_too_little_memory_is_told_so(tmp_path):
    file = write(tmp_path / "log.tsv", criteo_rows(3))
    with pytest.raises(ConfigError, match="at least 320 MiB"):
        prepare_criteo([file], tmp_path / "out", memory=100 << 20)


def test_a_header_that_is_not_the_formats_own_is_shown_also_where_it_is_cut(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("x" * 79 + "é,click\n1,2\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 1: the header of avazu logs is"):
        prepare(log_spec("avazu", {}), [file], tmp_path / "out")
