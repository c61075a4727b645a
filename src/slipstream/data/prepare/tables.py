"""Makes the tables: counts the training part, ranks the values, writes dictionaries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.arrays import Array
from slipstream.background import map_in_threads
from slipstream.data.encoder import Dictionary, Encoder, is_narrow
from slipstream.data.key_table import bytes_needed, mix
from slipstream.data.prepare.count import Counted, KeyCounts, run_of
from slipstream.data.prepare.log import Log
from slipstream.data.prepare.options import Options
from slipstream.data.prepare.order import slices
from slipstream.data.prepare.rank import Ranked, rank_table, write_dictionary
from slipstream.data.prepare.resource_limits import Memory
from slipstream.data.prepare.spill import mapped, new_map
from slipstream.data.prepare.vocabulary import Vocabulary, keep
from slipstream.data.schema import Column, Table, ValueKind

_THREADS = 2
_DTYPES = {"hex": "<u4", "int": "<i8", "text": "u1"}


@dataclass(frozen=True)
class MadeTable:
    """A table whose files lie in a folder of the preparation."""

    table: Table
    folder: Path

    @property
    def counts(self) -> Array:
        """How often each id occurs in training."""
        return mapped(self.folder / "id_counts", np.int64)

    @property
    def dictionary(self) -> Dictionary | None:
        """The raw value of each id."""
        kind = self.table.values
        if kind is None:
            return None
        values = mapped(self.folder / "values", np.dtype(_DTYPES[kind]))
        offsets = mapped(self.folder / "offsets", np.int64) if kind == "text" else None
        return Dictionary(kind, values, offsets)

    @property
    def buckets(self) -> Array | None:
        """The id of each bucket."""
        return mapped(self.folder / "buckets", np.int64) if self.table.buckets else None


def make_table(
    log: Log, name: str, train: int, options: Options, memory: Memory, folder: Path, texts: Path
) -> dict[str, Any]:
    """Make a table of the values in the first `train` events; return its description as JSON."""
    kind = log.kinds[name]
    counted = count_table(log, name, train, options.hash, memory, folder)
    least = options.min_count
    of_missing = counted.missing if counted.missing_seen >= least else None
    number_kind: ValueKind = "int" if options.hash is not None else kind
    rest = keep(folder, number_kind, counted, least, texts, memory.work // 8)
    if of_missing is None:
        rest += counted.missing
    vocabulary = Vocabulary.load(folder, number_kind)
    ranked = rank_table(folder, vocabulary, rest, of_missing, options.max_rows, memory.keys * 4)
    if options.hash is None:
        write_dictionary(folder, vocabulary, ranked, kind, 0)
        table = Table(name, ranked.rows, ranked.unseen, ranked.missing, kind, ranked.buckets)
    else:
        table = _hashed_table(name, kind, options.hash, ranked, vocabulary, folder)
    for pattern in ("kept.*", "falling", "by_count", "ids", "keys", "counts", "seen", "own/*"):
        for path in folder.glob(pattern):
            path.unlink()
    return asdict(table)


def _hashed_table(
    name: str, kind: ValueKind, buckets: int, ranked: Ranked, vocabulary: Vocabulary, folder: Path
) -> Table:
    ids = mapped(folder / "ids", np.int64)
    of_bucket = new_map(folder / "buckets", buckets, np.int64)
    for start, stop in slices(0, buckets):
        of_bucket[start:stop] = ranked.unseen
    for start, stop in slices(0, len(ids)):
        of_bucket[vocabulary.keys[start:stop]] = ids[start:stop]
    return Table(name, ranked.rows, ranked.unseen, ranked.missing, buckets=buckets, hashed=kind)


def count_table(
    log: Log, name: str, train: int, hash: int | None, memory: Memory, folder: Path
) -> Counted:
    """Count a table in the first `train` events; with `hash`, its buckets instead of its keys."""
    keys, counts, missing = _count(log, name, train, hash, memory, folder, own=False)
    if not log.derived:
        return Counted(keys, counts, counts, missing, missing)
    own, times, missing_seen = _count(log, name, train, hash, memory, folder / "own", own=True)
    seen = new_map(folder / "seen", len(keys), np.int64)
    for start, stop in slices(0, len(keys) if len(own) else 0):
        at = np.minimum(np.searchsorted(own, keys[start:stop]), len(own) - 1)
        seen[start:stop] = np.where(own[at] == keys[start:stop], times[at], 0)
    return Counted(keys, counts, seen, missing, missing_seen)


def _count(
    log: Log, name: str, train: int, hash: int | None, memory: Memory, folder: Path, own: bool
) -> tuple[Array, Array, int]:
    dtype = np.dtype("<i8") if hash is not None else log.key_dtype(name)
    counts = KeyCounts(folder, dtype, memory.keys * 2)
    missing = 0

    def count(piece: tuple[Column, int, int]) -> tuple[tuple[Array, Array], int]:
        column = log.column(*piece, own=own)
        nulls = int(np.count_nonzero(column.missing))
        keys = column.keys[~column.missing] if nulls else column.keys
        if hash is not None:
            keys = (mix(keys) % np.uint64(hash)).astype(np.int64)
        return run_of(keys), nulls

    for _, (run, nulls) in map_in_threads(count, _pieces(log, name, train, memory, own), _THREADS):
        counts.add([run])
        missing += nulls
    return (*counts.finish(), missing)


def _pieces(
    log: Log, name: str, train: int, memory: Memory, own: bool
) -> Iterator[tuple[Column, int, int]]:
    for column in log.own_columns() if own else log.columns:
        if column.table == name:
            # At least a piece for each thread, so that none is idle however much memory there is.
            size = min(memory.keys // log.width(column), -(-train // _THREADS))
            for start, stop in slices(0, train, max(1, size)):
                yield column, start, stop


def encoders(tables: dict[str, MadeTable], memory: Memory) -> dict[str, Encoder]:
    """Lookups of all tables: in memory while they fit, the largest ones in files."""
    left = memory.work // 3
    encoders: dict[str, Encoder] = {}

    def size(name: str) -> int:
        table, dictionary = tables[name].table, tables[name].dictionary
        if dictionary is None:
            return 0
        return bytes_needed(len(dictionary)) // (2 if is_narrow(table, dictionary) else 1)

    for name in sorted(tables, key=size):
        source, fits = tables[name], size(name) <= left
        left -= size(name) * fits
        rest = () if fits else (_in_files(source.folder),)
        encoders[name] = Encoder(source.table, source.dictionary, source.buckets, *rest)
    return encoders


def _in_files(folder: Path) -> Any:
    numbers = iter(range(2))
    return lambda count, dtype: new_map(folder / f"lookup{next(numbers)}", count, dtype)
