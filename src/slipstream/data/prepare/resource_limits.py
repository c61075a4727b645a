"""How much memory a preparation may take, and about how much disk it will take."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from slipstream.data.formats.spec import Categorical
from slipstream.data.prepare.source import LogPiece, Source
from slipstream.errors import ConfigError, DataError

MIB = 1 << 20
_RESERVED = 224 * MIB  # Python, torch, Polars and what their allocators hold back
_LEAST = 320 * MIB
_SLACK = 1.2


@dataclass(frozen=True)
class Memory:
    """How much each step may hold; it follows from the limit alone, so a resumed run cuts alike."""

    limit: int  # bytes of anonymous memory in all

    def __post_init__(self) -> None:
        if self.limit < _LEAST:
            raise ConfigError(
                f"memory is {self.limit / MIB:.0f} MiB; preparation needs at least "
                f"{_LEAST // MIB} MiB."
            )

    @property
    def work(self) -> int:
        """Bytes for everything but what is loaded anyway."""
        return self.limit - _RESERVED

    @property
    def block(self) -> int:
        """Bytes of text to parse at once; parsed they take several times as much, twice over."""
        return max(MIB // 4, min(16 * MIB, self.work // 56))

    @property
    def keys(self) -> int:
        """64-bit keys to sort at once, in one thread."""
        return max(1 << 14, self.work // 128)

    def rows(self, bytes_per_row: int) -> int:
        """Rows to encode at once."""
        return max(1 << 10, min(1 << 17, self.work // 32 // max(1, bytes_per_row)))


def check_disk(out: Path, needed: int) -> None:
    """Raise an error where the disk of `out` has less room than that."""
    folder = out.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"{folder}: preparation needs about {needed / 1e9:.1f} GB of disk and "
            f"{free / 1e9:.1f} GB are free. Make room or choose a folder on another disk."
        )


def disk_needed(source: Source) -> int:
    """Bytes for the spilled columns and the data set together, before anything is written."""
    spec = source.spec
    piece = next(source.pieces(0, 0, 1))
    sizes = [path.stat().st_size for path in source.inputs]
    first = max(1.0, piece.share * sizes[0])
    rows = (piece.next_line - piece.line) / first * sum(sizes)
    kinds = source.kinds()
    lengths = _lengths(source, piece)
    spilled: float = 4 + 8 + 4 * len(spec.dense) + 4 * (spec.weight is not None)
    packed: float = 4 + 8 * (spec.time is not None) + 4 * len(spec.dense)
    for column in spec.columns:
        each = lengths.get(column.name, 1.0)
        spilled += each * ((4 if kinds[column.table] == "hex" else 8) + 1)
        packed += each * 4
        if column.name in lengths:  # how long each list is, and where it ends
            spilled += 16
            packed += 8
    inputs = 1
    if spec.negatives is not None:
        inputs += spec.negatives.per_positive
        spilled += 8 * spec.negatives.per_positive
    if spec.history is not None:
        spilled += 32
        packed += (8 + 4 * spec.history.length) * len(spec.history.columns)
    spilled += 16 * spec.sort
    # Raw text comes again in the strings behind keys, at most as often as it stands in the log.
    text = any(kinds[c.table] == "text" for c in spec.columns)
    content = piece.content
    amount = content.estimated_size() if isinstance(content, pl.DataFrame) else len(content.data)
    raw = amount / first * sum(sizes) if text else 0
    return round(_SLACK * (rows * (spilled + packed * inputs) + raw))


def _lengths(source: Source, piece: LogPiece) -> dict[str, float]:
    """How many values the lists of each list column have on average."""
    lists = [column for column in source.spec.columns if column.kind != "single"]
    if not lists:
        return {}
    frame = source.rows(piece).frame
    return {column.name: _length(frame[column.field], column) for column in lists}


def _length(field: pl.Series, column: Categorical) -> float:
    if isinstance(field.dtype, pl.List):
        counts = field.list.len()
    else:
        counts = field.str.count_matches(column.split or " ", literal=True) + 1
    return float(counts.sum()) / max(1, len(field))
