"""The disk that a preparation asks for beforehand is enough for what it writes."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from raw_logs import WHOLE, prepare_table, schema_file

from slipstream.data.formats import log_spec
from slipstream.data.prepare.resource_limits import disk_needed
from slipstream.data.prepare.source import Source

ROWS = 2000


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.parquet"])
@pytest.mark.parametrize("length", [0, 1, 60])
@pytest.mark.parametrize("kind", ["int", "text"])
def test_every_value_of_a_list_counts(tmp_path, name, length, kind):
    rng = np.random.default_rng(0)
    lists = [rng.integers(0, 1000, length).tolist() for _ in range(ROWS)]
    members = [[str(value) for value in item] for item in lists] if kind == "text" else lists
    frame = pl.DataFrame(
        {"click": [0, 1] * (ROWS // 2), "shop": [1] * ROWS, "tags": members},
        schema_overrides={"tags": pl.List(pl.String if kind == "text" else pl.Int64)},
    )
    file = tmp_path / name
    if name.endswith("parquet"):
        frame.write_parquet(file)
    else:
        as_text = pl.col("tags").cast(pl.List(pl.String)).list.join(" ")
        text = frame.with_columns(as_text).write_csv().encode()
        file.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    schema = {
        "label": "click",
        "categorical": [{"name": "shop", "values": "int"}],
        "lists": [{"name": "tags", "values": kind}],
    }
    spec = log_spec("table", {"schema": schema_file(tmp_path, **schema)})
    needed = disk_needed(Source(spec, [file], 1 << 20))
    spilled = size_of_work(tmp_path, file, schema)
    assert spilled <= needed <= 4 * spilled


def size_of_work(folder: Path, file: Path, schema: dict) -> int:
    """Bytes of everything that a preparation holds on disk at its end."""
    from unittest.mock import patch

    from slipstream.data.prepare.state import State

    sizes = []

    def measured(self: State) -> None:
        sizes.append(size_of(self.work))
        remove(self)

    remove = State.remove
    with patch.object(State, "remove", measured):
        prepare_table(folder, [file], schema, **WHOLE)
    return sizes[-1] + size_of(folder / "out")
