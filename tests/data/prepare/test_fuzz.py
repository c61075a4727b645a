"""Arbitrary bytes as a log: never a traceback, never a lost row."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from plain_csv import header_fields, plain_rows
from raw_logs import WHOLE, criteo_rows, decoded, prepare_criteo, prepare_table

from slipstream import DataError, verify

GOOD = ["\t".join(row).encode() for row in criteo_rows(20)]
pieces = st.one_of(
    st.sampled_from(GOOD),
    st.binary(max_size=30),
    st.sampled_from([b"", b"\r", b"\t" * 39, b"\0", b'"', b"\xef\xbb\xbf", b"\xff"]),
)
logs = st.lists(pieces, max_size=12).map(b"\n".join) | st.binary(max_size=200)
cells = st.sampled_from([b"a", b"1", b"", b" ", b"\r", b"\0", b"\xff", b"\xef\xbb\xbfa"]) | (
    st.sampled_from([b'"', b'"x"', b'"a,b"', b'"a\nb"', b'"a\r\nb"', b'""', b'5"', b'"5', b'"a"b'])
    | st.sampled_from([b'""""', b'x""'])
)
lines = st.lists(cells, min_size=1, max_size=4).map(b",".join)
good_lines = st.tuples(cells, cells).map(b",".join)
ends = st.sampled_from([b"\n", b"\n", b"\r\n", b"\r\r\n"])
csvs = st.lists(st.tuples(good_lines | lines, ends).map(b"".join), max_size=10).map(b"".join)
names = st.sampled_from(
    [b"a", b"b", b'"a"', b'"b"', b"", b"a ", b'"a,b"', b'"', b"\xff", b"\0", b"b"]
)
headers = st.just(b"a,b") | st.lists(names, min_size=1, max_size=4).map(b",".join)


def check_sentence(error: DataError, file: str) -> None:
    """An error names the file, or says that no row is left of it."""
    assert file in str(error) or "set aside" in str(error)


def lines_of(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n"))


@given(data=logs, block=st.sampled_from([64, 1000, 1 << 20]), compress=st.booleans())
def test_any_bytes_as_criteo(data, block, compress):
    with tempfile.TemporaryDirectory() as folder:
        name = "log.gz" if compress else "log.tsv"
        (Path(folder) / name).write_bytes(gzip.compress(data) if compress else data)
        try:
            with _blocks_of(block):
                result = prepare_criteo(
                    [Path(folder) / name], Path(folder) / "out", bad_rows="skip", **WHOLE
                )
        except DataError as error:
            check_sentence(error, name)
            assert [path.name for path in Path(folder).iterdir()] == [name]
            return
        source = result.manifest.source
        assert source["rows_read"] == lines_of(data)
        assert source["rows_read"] == len(result.train) + source["rows_set_aside"]
        assert sum(result.manifest.bad_rows.values()) == source["rows_set_aside"]
        assert verify(Path(folder) / "out") == []
        good = sum(line.removesuffix(b"\r") in GOOD for line in data.split(b"\n"))
        assert len(result.train) >= good


@given(
    header=headers,
    data=csvs,
    ending=st.sampled_from([b"", b'"', b"a,b", b'a,"b']),
    block=st.sampled_from([16, 64, 1 << 20]),
)
def test_any_bytes_as_a_csv_table_are_read_as_a_plain_reader_reads_them(
    header, data, ending, block
):
    data += ending
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log.csv"
        file.write_bytes(header + b"\n" + data)
        fields = header_fields(header)
        rows, bad = plain_rows(data, 2 if fields is None else len(fields))
        schema = {"categorical": ["a", "b"]}
        options = {"bad_rows": "skip", "min_count": 1, **WHOLE}
        try:
            with _blocks_of(block):
                result = prepare_table(Path(folder), [file], schema, **options)
        except DataError as error:
            check_sentence(error, str(file))
            once = fields is not None and fields.count("a") == fields.count("b") == 1
            assert not (once and rows), "there is a row that could have been kept"
            return
        shown = decoded(result)
        for name in ("a", "b"):
            place = fields.index(name)
            assert shown[name] == [row[place] or "(missing)" for row in rows]
        listed = Path(folder) / "out" / "bad_rows.tsv"
        given_up = listed.read_text().splitlines()[1:] if listed.exists() else []
        assert [int(line.split("\t")[1]) for line in given_up] == [line + 2 for line in bad]
        source = result.manifest.source
        assert (source["rows_read"], source["rows_set_aside"]) == (len(rows) + len(bad), len(bad))
        assert verify(Path(folder) / "out") == []


@given(data=st.binary(min_size=1, max_size=300), ending=st.sampled_from(["gz", "zst", "parquet"]))
def test_any_bytes_under_any_ending(data, ending):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"log.{ending}"
        file.write_bytes(data)
        try:
            prepare_table(Path(folder), [file], {"categorical": ["a"]}, bad_rows="skip")
        except DataError as error:
            check_sentence(error, str(file))


def _blocks_of(size: int):
    """Blocks so small that lines and quotes cross their ends."""
    from unittest.mock import PropertyMock, patch

    from slipstream.data.prepare.resource_limits import Memory

    return patch.object(Memory, "block", new_callable=PropertyMock, return_value=size)


def test_rows_are_the_same_whatever_the_size_of_a_block(tmp_path):
    data = b'a,b\n1,"x\ny"\n2,"p,""q"\n' * 40
    lines = data.split(b"a,b\n")
    (tmp_path / "log.csv").write_bytes(b"a,b\n" + b"".join(lines))
    result = []
    for block in (16, 64, 1 << 20):
        with _blocks_of(block):
            dataset = prepare_table(
                tmp_path, [tmp_path / "log.csv"], {"categorical": ["a", "b"]}, **WHOLE
            )
        result.append(
            np.concatenate([run.ids for run in dataset.train.runs(0, len(dataset.train))])
        )
    assert len(result[0]) == 80
    np.testing.assert_array_equal(result[0], result[1])
    np.testing.assert_array_equal(result[0], result[2])
