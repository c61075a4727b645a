"""The raw values that earn an id of their own, in raw order, with their counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from slipstream.arrays import Array
from slipstream.data.encoder import KEY_DTYPE
from slipstream.data.prepare.count import Counted
from slipstream.data.prepare.order import slices
from slipstream.data.prepare.spill import Spill, mapped
from slipstream.data.schema import ValueKind
from slipstream.errors import DataError

_SAMPLE = 256


@dataclass(frozen=True)
class Vocabulary:
    """Values in raw order: numbers by size, text by its bytes."""

    keys: Array
    counts: Array  # occurrences in training
    text: Array | None = None  # the bytes of all text values, one after the other
    ends: Array | None = None  # where each text ends

    @classmethod
    def load(cls, folder: Path, kind: ValueKind) -> Vocabulary:
        """The values that `keep` wrote."""
        keys = mapped(folder / "kept.keys", KEY_DTYPE[kind])
        counts = mapped(folder / "kept.counts", np.int64)
        if kind != "text":
            return cls(keys, counts)
        text, ends = mapped(folder / "kept.text", np.uint8), mapped(folder / "kept.ends", np.int64)
        return cls(keys, counts, text, ends)


def keep(
    folder: Path, kind: ValueKind, counted: Counted, least: int, texts: Path, limit: int
) -> int:
    """Write the values seen at least `least` times; return how often the others occur.

    `texts` holds the strings behind text keys, of which `limit` bytes are sorted at once.
    """
    names = ["kept.keys", "kept.counts"] + ["kept.text", "kept.ends"] * (kind == "text")
    spill = Spill(folder, dict.fromkeys(names, 0))
    spill.append({name: np.empty(0, dtype=np.uint8) for name in names})
    rest = total = 0
    for start, stop in slices(0, len(counted.keys)):
        counts = counted.counts[start:stop]
        good = counted.seen[start:stop] >= least
        rest += int(counts[~good].sum())
        total += int(np.count_nonzero(good))
        if kind != "text":
            spill.append({"kept.keys": counted.keys[start:stop][good], "kept.counts": counts[good]})
    if kind == "text":
        written = _keep_text(spill, counted, least, texts, limit)
        if written != total:
            raise DataError(
                f"Two of {written} different values share a 64-bit key. This is next to "
                "impossible: please report it. Preparing with --hash works meanwhile."
            )
    spill.close()
    return rest


def _keep_text(spill: Spill, counted: Counted, least: int, texts: Path, limit: int) -> int:
    """Write the strings in order, a range of them at a time."""
    size, sample = 0, []
    for frame in _good(texts, counted, least):
        size += int(frame["value"].str.len_bytes().sum()) + 64 * frame.height
        sample.append(frame["value"].gather_every(max(1, frame.height // _SAMPLE)))
    parts = max(1, -(-2 * size // limit))
    cuts: list[str] = []
    if parts > 1:
        ordered = pl.concat(sample).unique().sort()
        cuts = sorted({ordered[len(ordered) * part // parts] for part in range(1, parts)})
    written = end = 0
    for low, high in zip([None, *cuts], [*cuts, None], strict=True):
        pieces = []
        for frame in _good(texts, counted, least):
            if low is not None:
                frame = frame.filter(pl.col("value") >= low)
            if high is not None:
                frame = frame.filter(pl.col("value") < high)
            pieces.append(frame)
        if not pieces:
            continue
        frame = pl.concat(pieces).unique("value").sort("value")
        values = frame["value"]
        text = values.str.join("").item().encode() if frame.height else b""
        ends = end + np.cumsum(values.str.len_bytes().to_numpy().astype(np.int64))
        spill.append(
            {
                "kept.keys": frame["key"].to_numpy(),
                "kept.counts": frame["count"].to_numpy().astype(np.int64),
                "kept.text": np.frombuffer(text, dtype=np.uint8),
                "kept.ends": ends,
            }
        )
        end += len(text)
        written += frame.height
    return written


def _good(texts: Path, counted: Counted, least: int) -> Iterator[pl.DataFrame]:
    """The strings that are seen often enough, chunk by chunk: `key`, `value` and `count`."""
    keys = counted.keys
    for path in sorted(texts.glob("*")) if len(keys) else []:
        frame = pl.read_ipc(path)
        own = frame["key"].to_numpy()
        at = np.minimum(np.searchsorted(keys, own), len(keys) - 1)
        good = (keys[at] == own) & (counted.seen[at] >= least)
        yield frame.with_columns(count=pl.Series(counted.counts[at])).filter(pl.Series(good))
