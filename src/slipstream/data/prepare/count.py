"""Counts how often each key occurs, in bounded memory: sorted runs on disk, merged by range."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slipstream.arrays import Array
from slipstream.data.prepare.spill import Spill, mapped

_MOST = 2**32


@dataclass(frozen=True)
class Counted:
    """How often the values of a table occur in training."""

    keys: Array  # in rising order
    counts: Array  # occurrences in the examples: they rank the keys
    seen: Array  # occurrences in the rows of the log: they decide which keys earn an id
    missing: int  # occurrences of the missing value in the examples
    missing_seen: int  # and in the rows of the log


class KeyCounts:
    """Counts keys; `limit` is how many of them it holds in memory, the rest lies in `folder`.

    Example:
        >>> counts = KeyCounts(folder, np.dtype("<i8"), 1000)  # doctest: +SKIP
        >>> counts.add([run_of(np.array([3, 1, 3]))])  # doctest: +SKIP
        >>> counts.finish()  # doctest: +SKIP
        (array([1, 3]), array([1, 2]))
    """

    def __init__(self, folder: Path, dtype: np.dtype[np.generic], limit: int) -> None:
        self.folder, self.dtype, self.limit = folder, dtype, limit
        self.runs: list[tuple[Array, Array]] = []
        self.spilled = 0
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("run*"):
            old.unlink()

    def add(self, runs: Iterable[tuple[Array, Array]]) -> None:
        """Add runs of distinct keys in rising order, with their counts."""
        for run in runs:
            self.runs.append(run)
            # Merging only runs of like size keeps the work for each key logarithmic.
            while len(self.runs) > 1 and len(self.runs[-2][0]) <= 2 * len(self.runs[-1][0]):
                self.runs[-2:] = [merge(self.runs[-2:], self.dtype)]
            if sum(len(keys) for keys, _ in self.runs) > self.limit:
                self._spill()

    def _spill(self) -> None:
        keys, counts = merge(self.runs, self.dtype)
        keys.tofile(self.folder / f"run{self.spilled:04d}.keys")
        counts.tofile(self.folder / f"run{self.spilled:04d}.counts")
        self.spilled += 1
        self.runs = []

    def finish(self) -> tuple[Array, Array]:
        """All keys and their counts, mapped from files."""
        spill = Spill(self.folder, {"keys": 0, "counts": 0})
        if self.spilled:
            self._spill()
        for runs in self._by_range() if self.spilled else [self.runs]:
            keys, counts = merge(runs, self.dtype)
            spill.append({"keys": keys, "counts": counts})
        self.runs = []
        spill.close()
        for old in self.folder.glob("run*"):
            old.unlink()
        return mapped(self.folder / "keys", self.dtype), mapped(self.folder / "counts", np.int64)

    def _by_range(self) -> Iterable[list[tuple[Array, Array]]]:
        """The runs, cut at the same keys so that each range of them can be held."""
        names = [self.folder / f"run{number:04d}" for number in range(self.spilled)]
        keys = [mapped(name.with_suffix(".keys"), self.dtype) for name in names]
        counts = [mapped(name.with_suffix(".counts"), np.int64) for name in names]
        step = max(1, self.limit // (2 * self.spilled))
        # Between two neighbouring splitters no run has more than `step` keys.
        splitters = np.unique(np.concatenate([run[step::step] for run in keys]))
        cuts = [np.searchsorted(run, splitters) for run in keys]
        starts = [0] * len(keys)
        for place in range(len(splitters) + 1):
            last = place == len(splitters)
            ends = [len(keys[k]) if last else int(cut[place]) for k, cut in enumerate(cuts)]
            if last or sum(ends) - sum(starts) + step * len(keys) > self.limit:
                bounds = [slice(*bound) for bound in zip(starts, ends, strict=True)]
                yield [(keys[k][bound], counts[k][bound]) for k, bound in enumerate(bounds)]
                starts = ends


def run_of(keys: Array) -> tuple[Array, Array]:
    """The distinct keys in rising order, and how often each occurs."""
    if not len(keys):
        return keys, np.empty(0, dtype=np.int64)
    ordered = np.sort(keys)
    starts = np.concatenate([[0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1])
    return ordered[starts], np.diff(starts, append=len(ordered))


def merge(runs: list[tuple[Array, Array]], dtype: np.dtype[np.generic]) -> tuple[Array, Array]:
    """Merge runs; the counts of equal keys are added."""
    if not runs:
        return np.empty(0, dtype=dtype), np.empty(0, dtype=np.int64)
    if len(runs) == 1:
        return runs[0]
    keys = np.concatenate([run[0] for run in runs])
    counts = np.concatenate([run[1] for run in runs])
    if keys.dtype.itemsize == 4 and len(counts) and int(counts.max()) < _MOST:
        # Both fit one word, and sorting words is several times faster than sorting places.
        words = np.sort((keys.astype(np.uint64) << np.uint64(32)) | counts.astype(np.uint64))
        keys = (words >> np.uint64(32)).astype(dtype)
        counts = (words & np.uint64(_MOST - 1)).astype(np.int64)
    else:
        order = np.argsort(keys, kind="stable")
        keys, counts = keys[order], counts[order]
    if not len(keys):
        return keys, counts
    starts = np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1])
    return keys[starts], np.add.reduceat(counts, starts)
