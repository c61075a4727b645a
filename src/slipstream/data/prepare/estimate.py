"""About how much disk a preparation will take, from the first rows of the log."""

from __future__ import annotations

import polars as pl

from slipstream.data.formats.spec import Categorical
from slipstream.data.prepare.source import LogPiece, Source

_SLACK = 1.2


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
    held = content.estimated_size() if isinstance(content, pl.DataFrame) else len(content.data)
    raw = held / first * sum(sizes) if text else 0
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
