"""About how much disk a preparation will take, from the first rows of the log."""

from __future__ import annotations

from slipstream.data.prepare.source import Source

_SLACK = 1.2


def disk_needed(source: Source) -> int:
    """Bytes for the spilled columns and the data set together, before anything is written."""
    spec = source.spec
    piece = next(source.pieces(0, 0, 1))
    sizes = [path.stat().st_size for path in source.inputs]
    first = max(1.0, piece.share * sizes[0])
    rows = (piece.next_line - piece.line) / first * sum(sizes)
    kinds = source.kinds()
    spilled = 4 + 8 + 4 * len(spec.dense) + 4 * (spec.weight is not None)
    spilled += sum((4 if kinds[c.table] == "hex" else 8) + 1 for c in spec.columns)
    packed = 4 + 8 * (spec.time is not None) + 4 * len(spec.dense) + 4 * len(spec.columns)
    each = 1
    if spec.negatives is not None:
        each += spec.negatives.per_positive
        spilled += 8 * spec.negatives.per_positive
    if spec.history is not None:
        spilled += 32
        packed += 8 + 4 * spec.history.length * len(spec.history.columns)
    spilled += 16 * spec.sort
    # Raw text comes again in the strings behind keys, at most as often as it stands in the log.
    text = any(kinds[c.table] == "text" for c in spec.columns)
    raw = (piece.stop - piece.start) / first * sum(sizes) if text else 0
    return round(_SLACK * (rows * (spilled + packed * each) + raw))
