"""Raw logs for tests: small ones in every format, and what they come to when prepared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slipstream import Dataset
from slipstream.data.encoder import decode
from slipstream.data.formats import log_spec
from slipstream.data.prepare import Options, prepare

WHOLE = {"validation": 0.0, "evaluation": 0.0}


def criteo_rows(count: int, seed: int = 0) -> list[list[str]]:
    """Rows of a criteo log: few values, so that they repeat, with some missing."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        dense = ["" if rng.random() < 0.2 else str(rng.integers(-2, 500)) for _ in range(13)]
        columns = ["" if rng.random() < 0.1 else f"{rng.zipf(1.5) % 2**32:08x}" for _ in range(26)]
        rows.append([str(rng.integers(0, 2)), *dense, *columns])
    return rows


def avazu_rows(count: int, seed: int = 0) -> list[list[str]]:
    """The header and the rows of an avazu log, a hundred an hour."""
    rng = np.random.default_rng(seed)
    fields = log_spec("avazu", {}).header
    rows = [list(fields)]
    for number in range(count):
        hour = f"141021{number // 100:02}"
        known = {"id": str(number), "click": str(rng.integers(0, 2)), "hour": hour}
        numbers = {name for name in fields if name[0] == "C" or name[-3:] in ("pos", "ype")}
        values = {name: int(rng.zipf(1.5)) % 2**32 for name in fields}
        raw = {n: str(v) if n in numbers else f"{v:08x}" for n, v in values.items()} | known
        rows.append([raw[name] for name in fields])
    return rows


def write(path: Path, rows: Sequence[Sequence[str]], separator: str = "\t") -> Path:
    path.write_text("".join(separator.join(row) + "\n" for row in rows), encoding="utf-8")
    return path


def schema_file(folder: Path, **keys: Any) -> Path:
    """A schema file; JSON is YAML too."""
    path = folder / "schema.yaml"
    path.write_text(json.dumps(keys))
    return path


def prepare_table(folder: Path, files: Sequence[Path], schema: dict[str, Any], **options: Any):
    spec = log_spec("table", {"schema": schema_file(folder, **schema)})
    out = folder / "out"
    return Dataset.open(prepare(spec, files, out, Options(**options), force=True))


def prepare_criteo(files: Sequence[Path], out: Path, **options: Any) -> Dataset:
    return Dataset.open(prepare(log_spec("criteo", {}), files, out, Options(**options), force=True))


def decoded(dataset: Dataset, part: str = "train") -> dict[str, list[Any]]:
    """The raw values behind every input of a part; lists for list columns."""
    schema, columns = dataset.schema, {}
    runs = dataset.parts[part].runs(0, len(dataset.parts[part]))
    for place, column in enumerate(schema.singles):
        columns[column.name] = [
            value for run in runs for value in _raw(dataset, column.table, run.ids[:, place])
        ]
    for column in schema.lists:
        columns[column.name] = [
            _raw(dataset, column.table, ids)
            for run in runs
            for ragged in [run.lists[column.name]]
            for ids in np.split(ragged.values, ragged.offsets[1:-1])
        ][: len(dataset.parts[part])]
    return columns


def _raw(dataset: Dataset, name: str, ids: np.ndarray) -> list[str]:
    table, dictionary = dataset.schema.table(name), dataset.dictionary(name)
    buckets = dataset.buckets(name)
    return [decode(row, table, dictionary, buckets) for row in ids.tolist()]


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file in a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
