"""Any table of raw values, prepared and decoded back, gives the rows again."""

from __future__ import annotations

import csv
import io
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_datasets import assert_same_inputs
from raw_logs import WHOLE, criteo_rows, decoded, digests, prepare_table, write

from slipstream import Lists, Recipe, from_arrays, verify
from slipstream.data.formats import log_spec
from slipstream.data.prepare import Options, pack, prepare
from slipstream.data.prepare.parse import Parser
from slipstream.data.prepare.resource_limits import Memory
from slipstream.data.synthetic.raw import write_raw

# What CSV cannot say: an empty value is a missing one.
text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)
unquoted = st.characters(codec="utf-8", exclude_characters='\r\n\0"\t,')
plain = st.text(unquoted, min_size=1, max_size=6)
members = st.lists(plain.filter(lambda value: "|" not in value), max_size=4)
whole = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3)
hexes = st.integers(0, 2**32 - 1).map("{:08x}".format) | st.sampled_from(["00000000", "ffffffff"])


@st.composite
def tables(draw: st.DrawFn, quoted: bool) -> tuple[dict[str, list], dict[str, str]]:
    """The raw values of some columns, None where missing, and the kind of each."""
    n = draw(st.integers(1, 40))
    columns, kinds = {}, {}
    for number in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["text", "int", "hex"]))
        values = {"text": text if quoted else plain, "int": whole.map(str), "hex": hexes}[kind]
        few = st.sampled_from(draw(st.lists(values, min_size=1, max_size=4))) | values
        name = f"{kind} {number}"
        columns[name] = draw(st.lists(few | st.none(), min_size=n, max_size=n))
        kinds[name] = kind
    return columns, kinds


def to_csv(columns: dict[str, list], separator: str, ending: str) -> bytes:
    file = io.StringIO()
    writer = csv.writer(file, delimiter=separator, lineterminator=ending)
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        cells = ["" if cell is None else cell for cell in row]
        writer.writerow(cells)
    return file.getvalue().encode()


@given(
    given_values=st.booleans().flatmap(lambda quoted: tables(quoted)),
    separator=st.sampled_from([",", "\t", ";"]),
    ending=st.sampled_from(["\n", "\r\n"]),
    last_newline=st.booleans(),
)
def test_any_table_as_text_decodes_to_the_same_rows(given_values, separator, ending, last_newline):
    columns, kinds = given_values
    labels = ["0"] * len(next(iter(columns.values())))
    data = to_csv({"label": labels, **columns}, separator, ending)
    if not last_newline:
        data = data.removesuffix(ending.encode())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log.csv"
        file.write_bytes(data)
        schema = {
            "label": "label",
            "separator": separator,
            "categorical": [{"name": name, "values": kind} for name, kind in kinds.items()],
        }
        dataset = prepare_table(Path(folder), [file], schema, min_count=1, **WHOLE)
        raw = {n: ["(missing)" if v is None else v for v in vs] for n, vs in columns.items()}
        assert decoded(dataset) == raw
        assert dataset.manifest.source["rows_read"] == len(dataset.train)
        assert verify(Path(folder) / "out") == []


@given(data=st.data())
def test_any_parquet_table_is_the_one_that_arrays_make(data):
    """Parts, ids, counts and lists are those of `from_arrays`, the rules in memory."""
    n = data.draw(st.integers(3, 40))
    strings = st.lists(text | st.none() | st.just(""), min_size=n, max_size=n)
    numbers = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3), min_size=n, max_size=n)
    floats = st.lists(st.floats(-100, 100, width=32), min_size=n, max_size=n)
    lists = st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=n, max_size=n)
    frame = pl.DataFrame(
        {
            "clicked": data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)),
            "shop": pl.Series(data.draw(strings), dtype=pl.String),
            "user": pl.Series(data.draw(numbers), dtype=pl.Int64),
            "tags": pl.Series(data.draw(lists), dtype=pl.List(pl.Int64)),
            "price": pl.Series(data.draw(floats), dtype=pl.Float64),
            "time": sorted(data.draw(st.lists(st.integers(0, 10**9), min_size=n, max_size=n))),
            "weight": pl.Series(data.draw(floats)).abs(),
        }
    )
    min_count = data.draw(st.integers(1, 3))
    shares = {"validation": 0.1, "evaluation": data.draw(st.sampled_from([0.0, 0.3]))}
    expected = from_arrays(
        labels=frame["clicked"].to_numpy(),
        columns={
            "shop": np.array(frame["shop"].to_list(), dtype=object),
            "user": frame["user"].to_numpy(),
            "tags": Lists.of(frame["tags"].to_list(), "sum"),
        },
        dense={"price": frame["price"].to_numpy()},
        weights=frame["weight"].to_numpy(),
        times=frame["time"].to_numpy(),
        label="clicked",
        min_count=min_count,
        **shares,
    )
    schema = {
        "label": "clicked",
        "categorical": ["shop", "user"],
        "lists": [{"name": "tags", "kind": "sum"}],
        "dense": [{"name": "price", "transform": "none"}],
        "time": "time",
        "weight": "weight",
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log.parquet"
        frame.write_parquet(file, row_group_size=7)
        result = prepare_table(Path(folder), [file], schema, min_count=min_count, **shares)
        if not (frame["shop"].drop_nulls().len() and frame["tags"].list.len().sum()):
            return  # arrays without any value have no type to compare
        assert_same_inputs(result, expected)
        for table in result.schema.tables:
            np.testing.assert_array_equal(result.counts(table.name), expected.counts(table.name))


@pytest.mark.parametrize("format", ["criteo", "table"])
def test_the_result_does_not_depend_on_the_memory(tmp_path, format, monkeypatch):
    """A thousandth of the real sizes, so that a small log is of many pieces at every step."""
    if format == "criteo":
        spec, file = log_spec("criteo", {}), write(tmp_path / "log.tsv", criteo_rows(300))
    else:
        spec = log_spec("taobao", {"history": 3, "negatives": 2})
        file = tmp_path / "log.csv"
        write_raw(Recipe("taobao", rows=2500, seed=1), file)
    pieces = {"blocks": 0, "parts": 0}
    sizes = {name: getattr(Memory, name).fget for name in ("block", "keys")}
    rows, read, encode = Memory.rows, Parser.parse, pack._inputs
    for name, size in sizes.items():
        monkeypatch.setattr(Memory, name, property(lambda m, s=size: max(16, s(m) // 1000)))
    monkeypatch.setattr(Memory, "rows", lambda m, width: max(16, rows(m, width) // 1000))

    def parse(self, number, block):
        pieces["blocks"] += 1
        return read(self, number, block)

    def inputs(*words):
        pieces["parts"] += 1
        return encode(*words)

    monkeypatch.setattr(Parser, "parse", parse)
    monkeypatch.setattr(pack, "_inputs", inputs)
    counts, result = [], []
    for memory in (320 << 20, 512 << 20, 2 << 30):
        pieces.update(blocks=0, parts=0)
        out = prepare(spec, [file], tmp_path / str(memory), Options(memory=memory))
        counts.append(dict(pieces))
        result.append(digests(out))
    assert result[0] == result[1] == result[2]
    for subject in pieces:
        actual = [count[subject] for count in counts]
        assert actual[0] > actual[1] > actual[2] > 2, f"{actual} {subject}"


@settings(max_examples=20)
@given(lists=st.lists(members, min_size=1, max_size=20))
def test_lists_in_text_come_back(lists):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log.csv"
        lines = ["click,tags", *(f"1,{'|'.join(item)}" for item in lists)]
        file.write_bytes(("\n".join(lines) + "\n").encode())
        schema = {"label": "click", "lists": [{"name": "tags", "split": "|", "kind": "sequence"}]}
        dataset = prepare_table(Path(folder), [file], schema, min_count=1, **WHOLE)
        assert decoded(dataset)["tags"] == lists
