"""Exports a run: its weights, a program that does not need slipstream, and a description."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from slipstream.data.atomic_write import partial_path
from slipstream.data.manifest import versions
from slipstream.data.schema import Schema
from slipstream.errors import ConfigError
from slipstream.models.inputs import LINEAR
from slipstream.training.export.program import Program, exported
from slipstream.training.export.weights import SHARD_BYTES, table_rows, write_weights
from slipstream.training.load_run import LoadedRun, open_run

PROGRAM, DESCRIPTION = "model.pt2", "export.json"
INSIDE_BYTES = 2 << 30


def export_run(
    run: str | Path,
    out: str | Path,
    *,
    inside_bytes: int = INSIDE_BYTES,
    shard_bytes: int = SHARD_BYTES,
    force: bool = False,
) -> dict[str, Any]:
    """Export a run's newest checkpoint for use without this package.

    Args:
        run: The folder of a run.
        out: The folder to create, with `weights.safetensors` (several files if it is large),
            `model.pt2` (a `torch.export` program) and `export.json`, which describes both.
        inside_bytes: At most so many bytes of tables are stored in the program, the smallest
            first. The others are passed to it with every call.
        shard_bytes: The largest size of a file of weights.
        force: Replace an existing export.

    Returns:
        The content of `export.json`.
    """
    out = Path(out).absolute()
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        if not (out / DESCRIPTION).is_file():
            raise ConfigError(f"{out} exists and is not an export. Choose another folder.")
        if not force:
            raise ConfigError(
                f"{out} already holds an export. Choose another folder, or use --force."
            )
    loaded = open_run(run)
    with partial_path(out) as work:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        try:
            description = _write(loaded, work, inside_bytes, shard_bytes)
            if out.exists():
                shutil.rmtree(out)
            work.rename(out)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return description


def _write(loaded: LoadedRun, folder: Path, inside_bytes: int, shard_bytes: int) -> dict[str, Any]:
    model = loaded.engine.dense.model
    stores = loaded.engine.tables.stores
    tables = {
        table.name: table_rows(store, table.name)
        for store in stores
        for table in store.group.tables
    }
    inside = _tables_inside(tables, inside_bytes)
    outside = [name for name in tables if name not in inside]
    program = Program(model, loaded.schema, {name: tables[name] for name in inside}, outside)
    program.eval().requires_grad_(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        written = exported(program, loaded.schema, [tables[name] for name in outside])
        torch.export.save(written, folder / PROGRAM)
    named = {f"table.{name}": rows for name, rows in tables.items()}
    named |= {f"dense.{name}": value for name, value in model.state_dict().items()}
    files = write_weights(folder, named, shard_bytes)
    description = _description(loaded, tables, outside, named, files)
    description["program"]["bytes"] = (folder / PROGRAM).stat().st_size
    (folder / DESCRIPTION).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
    return description


def _tables_inside(tables: Mapping[str, Tensor], limit: int) -> list[str]:
    """The tables that fit the program, the smallest first, in the order of the layout."""
    chosen, left = set(), limit
    for name in sorted(tables, key=lambda name: tables[name].nbytes):
        left -= tables[name].nbytes
        if left >= 0:
            chosen.add(name)
    return [name for name in tables if name in chosen]


def _description(
    loaded: LoadedRun,
    tables: Mapping[str, Tensor],
    outside: list[str],
    named: Mapping[str, Tensor],
    files: Mapping[str, str],
) -> dict[str, Any]:
    schema, state = loaded.schema, loaded.checkpoint.state
    return {
        "format": "slipstream-export",
        "version": 1,
        "model": loaded.config.model.name,
        "run": str(loaded.folder),
        "position": loaded.position,
        "ended": loaded.ended,
        "program": {
            "file": PROGRAM,
            "computes": "float32",
            "inputs": _inputs(schema, tables, outside),
            "output": {
                "name": "logits",
                "dtype": "float32",
                "shape": ["batch"],
                "meaning": "the probability of a click is sigmoid(logit)",
            },
        },
        "weights": {
            name: {"file": files[name], "dtype": _dtype(tensor), "shape": list(tensor.shape)}
            for name, tensor in named.items()
        },
        "columns": [asdict(column) for column in schema.columns],
        "dense": list(schema.dense),
        "tables": {
            name: {
                "rows": rows.shape[0],
                "dim": rows.shape[1],
                "bytes": rows.nbytes,
                "inside": name not in outside,
                "unseen": schema.table(name.removesuffix(LINEAR)).unseen,
                "missing": schema.table(name.removesuffix(LINEAR)).missing,
            }
            for name, rows in tables.items()
        },
        "dictionary": {"data": loaded.config.data, "checksum": state["dataset"]},
        "versions": versions(),
    }


def _inputs(
    schema: Schema, tables: Mapping[str, Tensor], outside: list[str]
) -> list[dict[str, Any]]:
    """The inputs of the program, in order."""

    def entry(name: str, dtype: str, *shape: int | str, **more: Any) -> dict[str, Any]:
        return {"name": name, "dtype": dtype, "shape": list(shape), **more}

    singles = [column.name for column in schema.singles]
    inputs = [
        entry("dense", "float32", "batch", len(schema.dense), columns=list(schema.dense)),
        entry("ids", "int64", "batch", len(singles), columns=singles),
    ]
    for column in schema.lists:
        inputs.append(entry(column.name, "int64", "batch", f"longest {column.name}"))
        inputs.append(entry(f"{column.name} lengths", "int64", "batch"))
    return inputs + [
        entry(f"table.{name}", _dtype(tables[name]), *tables[name].shape) for name in outside
    ]


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
