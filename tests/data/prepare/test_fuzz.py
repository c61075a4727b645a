"""Arbitrary bytes as a log: never a traceback, never a lost row."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from raw_logs import WHOLE, criteo_rows, prepare_criteo, prepare_table

from slipstream import DataError, verify

GOOD = ["\t".join(row).encode() for row in criteo_rows(20)]
pieces = st.one_of(
    st.sampled_from(GOOD),
    st.binary(max_size=30),
    st.sampled_from([b"", b"\r", b"\t" * 39, b"\0", b'"', b"\xef\xbb\xbf", b"\xff"]),
)
logs = st.lists(pieces, max_size=12).map(b"\n".join) | st.binary(max_size=200)
csvs = st.lists(
    st.lists(
        st.sampled_from([b"a", b"1", b"", b'"', b'"x"', b'"a,b"', b'"a\nb"', b'""', b"\xff", b" "]),
        min_size=1,
        max_size=4,
    ).map(b",".join),
    max_size=10,
).map(b"\n".join)


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
                made = prepare_criteo(
                    [Path(folder) / name], Path(folder) / "out", bad_rows="skip", **WHOLE
                )
        except DataError as error:
            check_sentence(error, name)
            assert [path.name for path in Path(folder).iterdir()] == [name]
            return
        source = made.manifest.source
        assert source["rows_read"] == lines_of(data)
        assert source["rows_read"] == len(made.train) + source["rows_set_aside"]
        assert sum(made.manifest.bad_rows.values()) == source["rows_set_aside"]
        assert verify(Path(folder) / "out") == []
        good = sum(line.removesuffix(b"\r") in GOOD for line in data.split(b"\n"))
        assert len(made.train) >= good


@given(data=csvs, block=st.sampled_from([64, 1 << 20]))
def test_any_bytes_as_a_csv_table(data, block):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log.csv"
        file.write_bytes(b"a,b\n" + data)
        try:
            with _blocks_of(block):
                made = prepare_table(
                    Path(folder),
                    [file],
                    {"categorical": ["a", "b"]},
                    bad_rows="skip",
                    min_count=1,
                    **WHOLE,
                )
        except DataError as error:
            check_sentence(error, str(file))
            return
        source = made.manifest.source
        assert source["rows_read"] == len(made.train) + source["rows_set_aside"]
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

    from slipstream.data.prepare.room import Memory

    return patch.object(Memory, "block", new_callable=PropertyMock, return_value=size)


def test_rows_are_the_same_whatever_the_size_of_a_block(tmp_path):
    data = b'a,b\n1,"x\ny"\n2,"p,""q"\n' * 40
    lines = data.split(b"a,b\n")
    (tmp_path / "log.csv").write_bytes(b"a,b\n" + b"".join(lines))
    made = []
    for block in (16, 64, 1 << 20):
        with _blocks_of(block):
            dataset = prepare_table(
                tmp_path, [tmp_path / "log.csv"], {"categorical": ["a", "b"]}, **WHOLE
            )
        made.append(np.concatenate([run.ids for run in dataset.train.runs(0, len(dataset.train))]))
    assert len(made[0]) == 80
    np.testing.assert_array_equal(made[0], made[1])
    np.testing.assert_array_equal(made[0], made[2])
