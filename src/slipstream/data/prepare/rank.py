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
    """The ids of a table."""

    rows: int  # how many there are
    unseen: int  # the id of all values without their own
    missing: int | None  # None where the missing value has no id of its own
    buckets: int = 0  # how many ids are buckets
    tail: int = 0  # how many values share the buckets


def rank_table(
    folder: Path,
    vocab: Vocabulary,
    rest: int,
    missing: int | None,
    max_rows: int | None,
    limit: int,
    first: int = 0,
) -> Ranked:
    """Give ids by falling count; equal counts in the order raw values, missing, buckets, unseen.

    Writes `ids` (of each kept value), `id_counts` and, where `max_rows` caps a table, `buckets`.
    `rest` counts the values without an id of their own; `missing` is None where the missing value
    has none. Where ids start at `first` instead of 0, there is no new unseen id.
    """
    n = len(vocab.keys)
    falling = new_map(folder / "falling", n, np.int64)
    for start, stop in slices(0, n):
        falling[start:stop] = -vocab.counts[start:stop]
    order = stable_order(falling, folder / "by_count", limit)
    others = int(first == 0) + (missing is not None)
    buckets, own = 0, n
    if max_rows is not None and n + others > max_rows:
        buckets = max(1, max_rows // _BUCKET_SHARE)
        own = max(0, max_rows - others - buckets)
    bucket_counts = np.zeros(buckets, dtype=np.int64)
    for start, stop in slices(own, n):
        tail = order[start:stop]
        bucket = (mix(vocab.keys[tail]) % np.uint64(max(1, buckets))).astype(np.int64)
        np.add.at(bucket_counts, bucket, vocab.counts[tail])
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
        ids_of_places = places + np.searchsorted(ahead, places, side="right")
        ids[order[start:stop]] = ids_of_places + first
        counts[ids_of_places] = vocab.counts[order[start:stop]]
    counts[special_ids - first] = special
    bucket_ids = special_ids[int(missing is not None) :][:buckets]
    for start, stop in slices(own, n):
        tail = order[start:stop]
        bucket = (mix(vocab.keys[tail]) % np.uint64(max(1, buckets))).astype(np.int64)
        ids[tail] = bucket_ids[bucket]
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
    folder: Path, vocab: Vocabulary, ranked: Ranked, kind: ValueKind, first: int
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
    letters = 0 if vocab.text is None else len(vocab.text) // max(1, len(vocab.keys))
    for start, stop in slices(0, len(place), max(1, _LETTERS // max(64, letters))):
        at = place[start:stop]
        known = np.maximum(at, 0)
        if vocab.ends is None or vocab.text is None:
            values = vocab.keys[known] if len(vocab.keys) else np.zeros(len(at), vocab.keys.dtype)
            spill.append({"values": np.where(at >= 0, values, 0).astype(vocab.keys.dtype)})
            continue
        ends = vocab.ends[known] if len(vocab.ends) else np.zeros(len(at), dtype=np.int64)
        starts = np.where(known > 0, vocab.ends[known - 1], 0) if len(vocab.ends) else ends
        lengths = np.where(at >= 0, ends - starts, 0)
        offsets = np.cumsum(lengths)
        flat = np.arange(offsets[-1]) + np.repeat(starts - (offsets - lengths), lengths)
        spill.append({"values": vocab.text[flat], "offsets": (offsets + end).astype("<i8")})
        end += int(offsets[-1])
    spill.close()
    (folder / "place").unlink()
