"""Ranks the values of a table on disk: the same rule as `data.ranking`, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slipstream.arrays import Array
from slipstream.data.key_table import mix
from slipstream.data.prepare.order import slices, stable_order
from slipstream.data.prepare.spill import Spill, mapped, new_map
from slipstream.data.prepare.vocabulary import Vocabulary
from slipstream.data.schema import ValueKind

_LETTERS = 1 << 22  # bytes of text to gather at once, which takes some twenty times as many
_BUCKET_SHARE = 8  # one row in so many is a bucket where a table is capped


@dataclass(frozen=True)
class Ranked:
    """What became of a table.

    Args:
        rows: How many ids there are.
        unseen: The id of everything that has none of its own.
        missing: The id of the missing value, if it has one of its own.
        buckets: How many ids are buckets.
        tail: How many values share the buckets.
    """

    rows: int
    unseen: int
    missing: int | None
    buckets: int = 0
    tail: int = 0


def rank_table(
    folder: Path,
    kept: Vocabulary,
    rest: int,
    missing: int | None,
    max_rows: int | None,
    limit: int,
    first: int = 0,
) -> Ranked:
    """Give ids by falling count; among equal counts values in raw order, then missing, buckets,
    and the unseen last.

    Leaves `ids` (of each kept value), `id_counts` and, where a table is capped, `buckets`.

    Args:
        folder: Where to write.
        kept: The values that earn an id.
        rest: How often the others occur.
        missing: How often the missing value occurs, if it earns an id.
        max_rows: The most rows.
        limit: How many values to sort at once.
        first: The first id; with ids before it there is no new unseen id.
    """
    n = len(kept.keys)
    falling = new_map(folder / "falling", n, np.int64)
    for start, stop in slices(0, n):
        falling[start:stop] = -kept.counts[start:stop]
    order = stable_order(falling, folder / "by_count", limit)
    others = int(first == 0) + (missing is not None)
    buckets, own = 0, n
    if max_rows is not None and n + others > max_rows:
        buckets = max(1, max_rows // _BUCKET_SHARE)
        own = max(0, max_rows - others - buckets)
    bucket_counts = np.zeros(buckets, dtype=np.int64)
    for start, stop in slices(own, n):
        tail = order[start:stop]
        bucket = (mix(kept.keys[tail]) % np.uint64(max(1, buckets))).astype(np.int64)
        np.add.at(bucket_counts, bucket, kept.counts[tail])
    special = np.concatenate(
        [
            np.array([missing] if missing is not None else [], dtype=np.int64),
            bucket_counts,
            np.array([rest] if first == 0 else [], dtype=np.int64),
        ]
    )
    by_count = np.argsort(-special, kind="stable")
    # How many values of their own come before each special one: those that occur as often.
    ahead = _count_at_least(falling, order, own, special[by_count])
    special_ids = np.empty(len(special), dtype=np.int64)
    special_ids[by_count] = ahead + np.arange(len(special)) + first
    rows = own + len(special)
    ids = new_map(folder / "ids", n, np.int64)
    counts = new_map(folder / "id_counts", rows, np.int64)
    for start, stop in slices(0, own):
        places = np.arange(start, stop)
        given = places + np.searchsorted(ahead, places, side="right")
        ids[order[start:stop]] = given + first
        counts[given] = kept.counts[order[start:stop]]
    counts[special_ids - first] = special
    bucket_ids = special_ids[int(missing is not None) :][:buckets]
    for start, stop in slices(own, n):
        tail = order[start:stop]
        ids[tail] = bucket_ids[(mix(kept.keys[tail]) % np.uint64(max(1, buckets))).astype(np.int64)]
    if buckets:
        bucket_ids.astype("<i8").tofile(folder / "buckets")
    return Ranked(
        rows=rows,
        unseen=int(special_ids[-1]) if first == 0 else -1,
        missing=int(special_ids[0]) if missing is not None else None,
        buckets=buckets,
        tail=n - own,
    )


def _count_at_least(falling: Array, order: Array, own: int, counts: Array) -> Array:
    """How many of the first `own` values in order occur at least so often."""
    low, high = np.zeros(len(counts), dtype=np.int64), np.full(len(counts), own)
    while np.any(low < high):
        open_ = np.flatnonzero(low < high)
        middle = (low[open_] + high[open_]) // 2
        enough = -falling[order[middle]] >= counts[open_]
        low[open_[enough]] = middle[enough] + 1
        high[open_[~enough]] = middle[~enough]
    return low


def write_dictionary(
    folder: Path, kept: Vocabulary, ranked: Ranked, kind: ValueKind, first: int
) -> None:
    """Leave `values` (and `offsets`) of the ids from `first` on, and behind them of the tail."""
    ids = mapped(folder / "ids", np.int64)
    bucket_ids = mapped(folder / "buckets", np.int64) if ranked.buckets else np.empty(0, np.int64)
    place = new_map(folder / "place", ranked.rows + ranked.tail, np.int64)
    for start, stop in slices(0, len(place)):
        place[start:stop] = -1
    tail = ranked.rows
    for start, stop in slices(0, len(ids)):
        shared = np.isin(ids[start:stop], bucket_ids)
        numbers = np.arange(start, stop)
        place[ids[start:stop][~shared] - first] = numbers[~shared]
        count = int(np.count_nonzero(shared))
        place[tail : tail + count] = numbers[shared]
        tail += count
    spill = Spill(folder, dict.fromkeys(["values"] + ["offsets"] * (kind == "text"), 0))
    end = 0
    if kind == "text":
        spill.append({"offsets": np.zeros(1, dtype="<i8"), "values": np.empty(0, np.uint8)})
    letters = 0 if kept.text is None else len(kept.text) // max(1, len(kept.keys))
    for start, stop in slices(0, len(place), max(1, _LETTERS // max(64, letters))):
        at = place[start:stop]
        known = np.maximum(at, 0)
        if kept.ends is None or kept.text is None:
            values = kept.keys[known] if len(kept.keys) else np.zeros(len(at), kept.keys.dtype)
            spill.append({"values": np.where(at >= 0, values, 0).astype(kept.keys.dtype)})
            continue
        ends = kept.ends[known] if len(kept.ends) else np.zeros(len(at), dtype=np.int64)
        starts = np.where(known > 0, kept.ends[known - 1], 0) if len(kept.ends) else ends
        lengths = np.where(at >= 0, ends - starts, 0)
        offsets = np.cumsum(lengths)
        flat = np.arange(offsets[-1]) + np.repeat(starts - (offsets - lengths), lengths)
        spill.append({"values": kept.text[flat], "offsets": (offsets + end).astype("<i8")})
        end += int(offsets[-1])
    spill.close()
    (folder / "place").unlink()
