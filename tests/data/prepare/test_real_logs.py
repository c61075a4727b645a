"""Two public logs, prepared with the schemas of the examples and compared with Python's csv module.

They are not part of the project: SLIPSTREAM_LOGS names the folder where they lie.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections import Counter, defaultdict
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest
from raw_logs import WHOLE, decoded

from slipstream import Dataset, verify
from slipstream.data.formats import log_spec
from slipstream.data.prepare import Options, prepare

EXAMPLES = Path(__file__).parents[3] / "examples"
FOLDER = os.environ.get("SLIPSTREAM_LOGS")


def raw_rows(name: str) -> list[dict[str, str]]:
    """The rows of a log; the test is skipped where it is absent."""
    if not FOLDER:
        pytest.skip("SLIPSTREAM_LOGS names no folder with real logs: not tested here")
    file = Path(FOLDER) / name
    if not file.is_file():
        pytest.skip(f"{name} is not in the folder of SLIPSTREAM_LOGS: not tested here")
    with gzip.open(file, "rt", newline="") as lines:
        return list(csv.DictReader(lines))


def made_of(name: str, schema: str, out: Path, **options) -> Dataset:
    spec = log_spec("table", {"schema": EXAMPLES / schema})
    return Dataset.open(prepare(spec, [Path(FOLDER) / name], out, Options(**options)))


@pytest.mark.slow
def test_talkingdata_comes_back_row_by_row_in_the_order_of_time(tmp_path):
    name = "talkingdata-100k.csv.gz"
    rows = raw_rows(name)
    moments = [
        datetime.strptime(row["click_time"], "%Y-%m-%d %H:%M").replace(tzinfo=timezone.utc)
        for row in rows
    ]
    order = sorted(range(len(rows)), key=lambda place: moments[place])
    result = made_of(name, "talkingdata.yaml", tmp_path / "whole", min_count=1, **WHOLE)
    shown = decoded(result)
    for column in ("ip", "app", "device", "os", "channel"):
        assert shown[column] == [rows[place][column] for place in order]
    assert shown["hour"] == [str(moments[place].hour) for place in order]
    (shard,) = result.train.shards
    assert shard.times.tolist() == [int(moments[place].timestamp()) for place in order]
    assert shard.labels.tolist() == [float(rows[place]["is_attributed"]) for place in order]
    parts = made_of(name, "talkingdata.yaml", tmp_path / "parts")
    assert [len(part) for part in parts.parts.values()] == [85_000, 5_000, 10_000]
    assert parts.manifest.source["rows_set_aside"] == 0
    assert verify(tmp_path / "parts") == []


@pytest.mark.slow
def test_globo_has_every_click_its_negatives_and_what_its_user_read_before(tmp_path):
    name = "globo-news-clicks.csv.gz"
    rows = raw_rows(name)
    rows.sort(key=lambda row: int(row["click_timestamp"]))
    result = made_of(name, "globo.yaml", tmp_path / "out", min_count=1, **WHOLE)
    source = result.manifest.source
    assert (source["rows_read"], source["rows_set_aside"]) == (len(rows), 0)
    assert len(result.train) == 5 * len(rows) - source["negatives"]["not_found"]
    shown = {column: np.array(values) for column, values in singles(result).items()}
    runs = result.train.runs(0, len(result.train))
    clicked = np.concatenate([run.labels for run in runs]) == 1
    times = np.concatenate([run.times for run in runs])
    assert clicked.sum() == len(rows)
    assert times[clicked].tolist() == [int(row["click_timestamp"]) // 1000 for row in rows]
    articles = shown["article"][clicked].tolist()
    assert articles == [row["click_article_id"] for row in rows]
    assert shown["user"][clicked].tolist() == [row["user_id"] for row in rows]
    event = np.cumsum(clicked) - 1
    draws = ~clicked
    assert not np.any(shown["article"][draws] == shown["article"][clicked][event[draws]])
    assert set(Counter(event[draws].tolist()).values()) == {4}
    before: dict[str, list[str]] = defaultdict(list)
    table, dictionary = result.schema.table("article"), result.dictionary("article")
    assert table.missing is None
    lists = [run.lists["article_history"] for run in runs]
    offsets = np.concatenate([np.diff(ragged.offsets) for ragged in lists])
    starts = np.cumsum(offsets) - offsets
    values = np.concatenate([ragged.values for ragged in lists])
    for place, row in zip(np.flatnonzero(clicked).tolist(), rows, strict=True):
        history = values[starts[place] : starts[place] + offsets[place]].tolist()
        read = before[row["user_id"]]
        assert [dictionary.raw(item) for item in history] == read[-20:]
        read.append(row["click_article_id"])
    assert verify(tmp_path / "out") == []


def singles(result: Dataset) -> dict[str, list[str]]:
    """The raw values of user and article, with a list for each dictionary instead of a call."""
    values = {}
    runs = result.train.runs(0, len(result.train))
    for place, column in enumerate(result.schema.singles):
        if column.name in ("user", "article"):
            dictionary, rows = (
                result.dictionary(column.table),
                result.schema.table(column.table).rows,
            )
            raw = np.array([dictionary.raw(row) for row in range(rows)])
            values[column.name] = raw[np.concatenate([run.ids[:, place] for run in runs])]
    return values
