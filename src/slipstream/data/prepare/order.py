"""In what order the rows of a log become examples, and which part each belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from slipstream.arrays import Array
from slipstream.data.key_table import mix
from slipstream.data.prepare.options import Options, Share
from slipstream.data.prepare.spill import Spill, mapped, new_map
from slipstream.errors import DataError

_SLICE = 1 << 20
_SAMPLE = 1 << 16
_DAY = 86_400_000


def slices(start: int, stop: int, size: int = _SLICE) -> Iterator[tuple[int, int]]:
    """Bounds of at most `size` numbers each."""
    for first in range(start, stop, size):
        yield first, min(first + size, stop)


def stable_order(values: Array, out: Path, limit: int, order: Array | None = None) -> Array:
    """The places of values in rising order, equal ones in the given order, `limit` sorted at once.

    Values are first divided into files of neighbouring ones, each small enough to be sorted alone.
    """
    n = len(values)
    result = new_map(out, n, np.int64)

    def places(first: int, last: int) -> Array:
        return np.arange(first, last) if order is None else order[first:last]

    splitters = _splitters(values, limit)
    if len(splitters) == 0:
        every = places(0, n)
        result[:] = every[np.argsort(values[every], kind="stable")]
        return result
    folder = out.with_name(out.name + ".parts")
    for old in folder.glob("*"):
        old.unlink()
    spill = Spill(folder, {})
    for first, last in slices(0, n, min(_SLICE, limit)):
        rows = places(first, last)
        sliced = values[rows]
        # An odd bucket holds one value only and is in order already, however large.
        at = np.searchsorted(splitters, sliced, side="left")
        same = splitters[np.minimum(at, len(splitters) - 1)] == sliced
        bucket = 2 * at + (same & (at < len(splitters)))
        by = np.argsort(bucket, kind="stable")
        ends = np.cumsum(np.bincount(bucket, minlength=2 * len(splitters) + 1))
        pieces = np.split(rows[by], ends[:-1])
        spill.append({f"{b:06d}": piece for b, piece in enumerate(pieces) if len(piece)})
    spill.close()
    done = 0
    for bucket in range(2 * len(splitters) + 1):
        path = folder / f"{bucket:06d}"
        rows = mapped(path, np.int64)
        if bucket % 2 == 0:
            rows = rows[np.argsort(values[rows], kind="stable")]
        result[done : done + len(rows)] = rows
        done += len(rows)
        path.unlink(missing_ok=True)
    folder.rmdir()
    return result


def _splitters(values: Array, limit: int) -> Array:
    parts = -(-2 * len(values) // limit) if len(values) > limit else 1
    if parts == 1:
        return values[:0]
    sample = np.sort(values[:: max(1, len(values) // _SAMPLE)])
    return np.unique(sample[np.arange(1, parts) * len(sample) // parts])


def part_ends(
    n: int, options: Options, time_at: Callable[[int], int] | None, file_rows: list[int]
) -> tuple[int, int, int]:
    """Where training, validation and evaluation end, of `n` events in order of time.

    Without times (`time_at` is None) each file is a day.
    """
    file_ends = np.cumsum(file_rows).tolist()

    def begin(share: Share, stop: int) -> int:
        if share != "day":
            return max(0, stop - round(n * share))
        if stop == 0:
            return 0
        if time_at is None:
            return max((end for end in [0, *file_ends] if end < stop), default=0)
        day = time_at(stop - 1) // _DAY * _DAY
        low, high = 0, stop
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if time_at(middle) >= day else (middle + 1, high)
        return low

    evaluation = begin(options.evaluation, n)
    validation = begin(options.validation, evaluation)
    if validation == 0:
        raise DataError(
            "Nothing is left to train on: the validation and evaluation parts take every row. "
            "Choose smaller shares, or add earlier days."
        )
    return validation, evaluation, n


def random_parts(n: int, options: Options, out: Path, order: Array | None) -> tuple[int, int, int]:
    """Assign rows to parts by a hash of their place; write the order, return where parts end."""
    first, share, seed = options.evaluation, options.validation, options.seed
    assert not isinstance(first, str), "options were checked"
    assert not isinstance(share, str), "options were checked"
    assert seed is not None, "options were filled in"
    second = first + share
    salt = mix(np.array([seed], dtype=np.int64))
    result = new_map(out, n, np.int64)
    ends, done = [], 0
    for low, high in ((second, 1.0), (first, second), (0.0, first)):
        for start, stop in slices(0, n):
            drawn = mix(np.arange(start, stop).astype(np.uint64) ^ salt) >> np.uint64(11)
            numbers = drawn.astype(np.float64) * 2.0**-53
            chosen = np.flatnonzero((numbers >= low) & (numbers < high)) + start
            result[done : done + len(chosen)] = chosen if order is None else order[chosen]
            done += len(chosen)
        ends.append(done)
    if ends[0] == 0:
        raise DataError("Nothing is left to train on: choose smaller shares or give more rows.")
    return ends[0], ends[1], ends[2]
