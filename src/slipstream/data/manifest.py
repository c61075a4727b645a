"""`manifest.json`: what a packed data set holds, and the checksum of every file in it."""

from __future__ import annotations

import json
import platform
from collections import Counter
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from slipstream.data.layout import MANIFEST
from slipstream.data.schema import Schema
from slipstream.data.signed_json import NO_CHECKSUM, is_signed, sign
from slipstream.errors import DataError
from slipstream.version import __version__

FORMAT = "slipstream-dataset"
VERSION = 1


@dataclass(frozen=True)
class ListStats:
    """How long the lists of a column are in one part; `typical` is the median."""

    values: int
    longest: int
    typical: int

    @classmethod
    def of(cls, lengths: Counter[int]) -> ListStats:
        """The statistics of lists of which so many have each length."""
        lists, below, typical = lengths.total(), 0, 0
        for length in sorted(lengths):
            below += lengths[length]
            if 2 * below >= lists:
                typical = length
                break
        values = sum(length * times for length, times in lengths.items())
        return cls(values, max(lengths, default=0), typical)


@dataclass(frozen=True)
class PartInfo:
    """One part: its examples, their labels, and how they are cut into shards."""

    rows: int
    positives: float
    shards: list[int]
    lists: dict[str, ListStats]

    @property
    def label_rate(self) -> float | None:
        """The mean label, or None for a part without examples."""
        return self.positives / self.rows if self.rows else None


@dataclass(frozen=True)
class FileInfo:
    """Size and SHA-256 of a file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """Everything that is known of a data set without reading its examples."""

    schema: Schema
    parts: dict[str, PartInfo]
    files: dict[str, FileInfo]  # by path within the folder
    source: dict[str, Any]  # where the examples came from: {"kind": ..., "files": [...], ...}
    rows_per_shard: int  # in every shard of a part but its last
    bad_rows: dict[str, int] = field(default_factory=dict)  # raw rows left out, by reason
    oracle: dict[str, dict[str, float]] | None = None  # scores of the truth on each part
    versions: dict[str, str] = field(default_factory=dict)
    checksum: str = ""  # of this manifest; with those of the files in it, it names the data set

    def to_text(self) -> str:
        """The text of `manifest.json`, with its own checksum filled in."""
        parts = {
            name: {**asdict(part), "label_rate": part.label_rate}
            for name, part in self.parts.items()
        }
        text = json.dumps(
            {
                "format": FORMAT,
                "version": VERSION,
                "checksum": NO_CHECKSUM,
                "schema": self.schema.to_json(),
                "parts": parts,
                "rows_per_shard": self.rows_per_shard,
                "bad_rows": self.bad_rows,
                "source": self.source,
                "oracle": self.oracle,
                "versions": self.versions,
                "files": {name: asdict(info) for name, info in sorted(self.files.items())},
            },
            indent=1,
        )
        return sign(text)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a data set's folder; an error where it is damaged or of another version."""
    path = folder / MANIFEST
    if not path.is_file():
        reason = "has no manifest.json" if folder.is_dir() else "does not exist"
        raise DataError(
            f"{folder} is not a packed data set: it {reason}. "
            "Make one with `slipstream synth` or point to the folder of one."
        )
    raw = path.read_bytes()
    values = _parse(raw, path)
    return msgspec.convert(values, Manifest)


def versions() -> dict[str, str]:
    """The versions that a data set or a run should record."""
    return {
        "slipstream": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": version("torch"),  # asked of the package: importing it takes seconds
    }


def _parse(raw: bytes, path: Path) -> dict[str, Any]:
    """The JSON of a manifest, after checking what it claims of itself against its bytes."""
    damaged = f"{path} is damaged: {{}}. Restore the file or make the data set again."
    try:
        values = json.loads(raw)
    except ValueError as error:
        raise DataError(damaged.format(f"it is not JSON ({error})")) from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise DataError(f"{path} is not the manifest of a slipstream data set.")
    if values.get("version") != VERSION:
        raise DataError(
            f"{path} is of data set version {values.get('version')}; this slipstream "
            f"({__version__}) reads version {VERSION}. Make the data set again, or use the "
            "slipstream that made it."
        )
    if not is_signed(raw):
        raise DataError(damaged.format("its checksum does not match its contents"))
    return values
