"""Raw values given later get the id that they had when the log was prepared, or are refused."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_logs import WHOLE, prepare_table

from slipstream import DataError, Dataset, from_arrays
from slipstream.data.encoder import raw_keys
from slipstream.data.prepare import values as in_logs

WRITTEN = ["", "0", "7", "-7", "-0", "+7", "007", " 7", "7 ", "7.0", "1e3", "0x1", "1_0", "1\n"]
WRITTEN += ["٣", str(2**63), str(2**63 - 1), str(-(2**63)), "9" * 40, "true", "a", "word"]
WRITTEN += ["00000000", "0000000a", "0000000A", "+0000001", "0x000001", "ffffffff", "123456789"]
strings = st.sampled_from(WRITTEN) | st.text(st.characters(codec="utf-8"), max_size=10)


@given(value=strings, kind=st.sampled_from(["hex", "int", "text"]))
def test_a_value_is_taken_later_exactly_if_it_is_taken_in_a_log(value, kind):
    cells = in_logs.keys(pl.Series([value or None], dtype=pl.String), kind)
    if cells.bad[0]:
        with pytest.raises(DataError, match="is not"):
            raw_keys([value], kind)
        return
    keys, missing = raw_keys([value], kind)
    assert missing.tolist() == cells.missing.tolist()
    assert missing[0] or keys.tolist() == cells.values.tolist()


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("hex", ["0", "0x1", "0000000G", "0000000A", 7, 0, True]),
        ("int", [" 1", "01", "+1", "1.0", 1.9, 1.0, True, np.float64(2), 2**63, "x", b"1"]),
        ("text", [1.5, True, b"a", "\ud800", ["a"]]),
    ],
)
@pytest.mark.parametrize("hash", [None, 8])
def test_what_prepare_would_not_take_is_refused(tmp_path, kind, values, hash):
    raw = {"hex": "0000000a", "int": "1", "text": "mill"}[kind]
    (tmp_path / "log.csv").write_text(f"click,x\n1,{raw}\n0,{raw}\n")
    schema = {"label": "click", "categorical": [{"name": "x", "values": kind}]}
    result = prepare_table(tmp_path, [tmp_path / "log.csv"], schema, hash=hash, **WHOLE)
    encoder = result.encoder("x")
    for value in values:
        with pytest.raises(DataError, match=f"Table 'x' has {kind} values, but .* is not"):
            encoder.encode([raw, value])
    assert encoder.encode([raw, np.str_(raw)]).tolist() == result.train.shards[0].ids[:, 0].tolist()


@pytest.mark.parametrize("kind", ["hex", "int", "text"])
def test_empty_text_is_a_missing_value_in_a_log_in_an_array_and_later(tmp_path, kind):
    raw = {"hex": "0000000a", "int": "1", "text": "mill"}[kind]
    (tmp_path / "log.csv").write_text(f"click,x\n1,{raw}\n" + "0,\n" * 3)
    schema = {"label": "click", "categorical": [{"name": "x", "values": kind}]}
    options = {"min_count": 1, **WHOLE}
    result = prepare_table(tmp_path, [tmp_path / "log.csv"], schema, **options)
    missing = result.schema.table("x").missing
    assert result.encoder("x").encode([raw, "", None]).tolist() == [1, missing, missing]
    frame = pl.DataFrame({"click": [1, 0, 0, 0], "x": [raw, "", None, ""]})
    frame.write_parquet(tmp_path / "log.parquet")
    same = prepare_table(tmp_path, [tmp_path / "log.parquet"], schema, **options)
    assert same.train.shards[0].ids.tolist() == result.train.shards[0].ids.tolist()
    if kind != "text":
        return
    for column in (np.array([raw, "", "", ""]), np.array([raw, "", None, ""], dtype=object)):
        array = from_arrays(np.array([1, 0, 0, 0]), {"x": column}, **options)
        assert array.train.shards[0].ids.tolist() == result.train.shards[0].ids.tolist()
        array.save(tmp_path / "saved", force=True)
        assert Dataset.open(tmp_path / "saved").encoder("x").encode([""]).tolist() == [missing]


def test_lists_have_missing_members_whatever_they_come_from(tmp_path):
    schema = {"label": "click", "lists": [{"name": "x", "split": "|", "kind": "sequence"}]}
    (tmp_path / "log.csv").write_text("click,x\n1,a||a\n0,a|\n")
    frame = pl.DataFrame({"click": [1, 0], "x": [["a", "", "a"], ["a", None]]})
    frame.write_parquet(tmp_path / "log.parquet")
    result = [
        prepare_table(tmp_path, [tmp_path / name], schema, **WHOLE).train.shards[0].lists["x"]
        for name in ("log.csv", "log.parquet")
    ]
    assert result[0].values.tolist() == result[1].values.tolist() == [0, 1, 0, 0, 1]


def test_whole_numbers_may_be_numbers(tmp_path):
    (tmp_path / "log.csv").write_text("click,x\n1,7\n0,7\n1,-3\n0,-3\n")
    schema = {"label": "click", "categorical": [{"name": "x", "values": "int"}]}
    encoder = prepare_table(tmp_path, [tmp_path / "log.csv"], schema, **WHOLE).encoder("x")
    assert encoder.encode(["7", 7, np.int32(7), np.uint8(7)]).tolist() == [1] * 4
    assert encoder.encode(np.array([-3, 7])).tolist() == [0, 1]
