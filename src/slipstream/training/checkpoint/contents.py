"""`state.json`: what a checkpoint holds, the caller's own state, and the checksum of every file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from slipstream.data.manifest import FileInfo, versions
from slipstream.data.signed_json import NO_CHECKSUM, is_signed, sign
from slipstream.errors import CheckpointError
from slipstream.version import __version__

STATE = "state.json"
DENSE = "dense.safetensors"
FORMAT = "slipstream-checkpoint"
VERSION = 1


@dataclass(frozen=True)
class SavedTable:
    """A table in a checkpoint."""

    name: str
    rows: int
    dim: int
    storage: str
    optimizer: str  # its state is beside the rows
    ranges: tuple[int, ...]  # the first row of each file of its rows, in order


@dataclass(frozen=True)
class Contents:
    """Everything in a checkpoint but the tensors."""

    step: int
    tables: tuple[SavedTable, ...]  # their place here is their number
    files: dict[str, FileInfo]  # by path within the folder
    state: dict[str, Any]  # from the caller
    versions: dict[str, str]


def rows_file(table: int, first_row: int) -> str:
    """The file of a table's rows that begins with this one."""
    return f"rows/{table}-{first_row}.safetensors"


def state_text(state: dict[str, Any]) -> str:
    """The caller's state as JSON; an error where reading it back would not give the same."""
    _check_keys(state, "state")
    try:
        return json.dumps(state)
    except (TypeError, ValueError) as error:
        raise CheckpointError(
            f"The state of a checkpoint must be JSON, and this is not: {error}. Give tensors as "
            "tensors, and everything else as numbers, texts, lists and dicts."
        ) from None


def contents_text(
    step: int, tables: list[SavedTable], files: dict[str, FileInfo], state: str
) -> str:
    """The text of `state.json`, with its own checksum filled in."""
    head = json.dumps(
        {
            "format": FORMAT,
            "version": VERSION,
            "checksum": NO_CHECKSUM,
            "step": step,
            "versions": versions(),
            "tables": [asdict(table) for table in tables],
            "files": {name: asdict(info) for name, info in sorted(files.items())},
        },
        indent=1,
    )
    return sign(f'{head[:-2]},\n "state": {state}\n}}')


def read_contents(folder: Path) -> Contents:
    """Read a checkpoint's `state.json`; the error about a damaged one is half a sentence."""
    path = folder / STATE
    try:
        raw = path.read_bytes()
        values = json.loads(raw)
    except FileNotFoundError:
        raise CheckpointError(f"{STATE} is missing") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{STATE} cannot be read ({error})") from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise CheckpointError(f"{STATE} is not that of a slipstream checkpoint")
    if not is_signed(raw):
        raise CheckpointError(f"the checksum in {STATE} does not match its contents")
    if values.get("version") != VERSION:
        raise CheckpointError(
            f"it is of checkpoint version {values.get('version')} and this slipstream "
            f"({__version__}) reads version {VERSION}"
        )
    return msgspec.convert(values, Contents)


def _check_keys(value: object, where: str) -> None:
    """Refuse keys that are not text: JSON would silently turn them into text."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise CheckpointError(
                    f"The key {key!r} in {where} of a checkpoint is not a text, which JSON needs."
                )
            _check_keys(inner, f"{where}[{key!r}]")
    elif isinstance(value, list | tuple) and any(isinstance(item, dict) for item in value):
        for number, inner in enumerate(value):
            _check_keys(inner, f"{where}[{number}]")
