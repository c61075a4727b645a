"""Tables whose ids come from another data set: used as they are, or extended behind their end."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.arrays import Array
from slipstream.data.dataset import Dataset
from slipstream.data.encoder import Dictionary
from slipstream.data.prepare.count import Counted
from slipstream.data.prepare.log import Log
from slipstream.data.prepare.options import Options
from slipstream.data.prepare.order import slices
from slipstream.data.prepare.rank import Ranked, rank_table, write_dictionary
from slipstream.data.prepare.resource_limits import Memory
from slipstream.data.prepare.spill import Spill, mapped, new_map
from slipstream.data.prepare.tables import count_table
from slipstream.data.prepare.vocabulary import Vocabulary, keep
from slipstream.data.schema import Table
from slipstream.errors import DataError


def check_fits(base: Dataset, log: Log, extend: bool) -> None:
    """Raise an error where a log has other columns or values than the data set."""
    both = (base.schema.columns, log.columns)
    own, of_log = ([(c.name, c.table, c.kind) for c in columns] for columns in both)
    if own != of_log:
        added, removed = ([c for c in a if c not in b] for a, b in ((of_log, own), (own, of_log)))
        name, _, _ = (added or removed or of_log)[0]
        raise DataError(
            f"{base.folder} does not fit this log: they differ in column {name!r}. Use the data "
            "set of a log of the same format and schema."
        )
    for table in base.schema.tables:
        kind = table.values or table.hashed
        if kind != log.kinds[table.name]:
            raise DataError(
                f"{base.folder} has {kind or 'no'} values in table {table.name!r}, this log has "
                f"{log.kinds[table.name]} values."
            )
        if extend and table.values is None:
            raise DataError(
                f"{base.folder} was prepared with --hash: table {table.name!r} has no dictionary, "
                "so there is nothing to extend, and new values share its buckets anyway. Leave out "
                "--extend (in Python, extend)."
            )


def reuse_dictionary(
    base: Dataset,
    log: Log,
    name: str,
    train: int,
    options: Options,
    memory: Memory,
    folder: Path,
    texts: Path,
) -> dict[str, Any]:
    """Make a table with the ids of a data set, new values behind them; return it as JSON."""
    table = base.schema.table(name)
    dictionary = base.dictionary(name)
    encoder = base.encoder(name)
    buckets = None if dictionary is not None else len(base.buckets(name))  # type: ignore[arg-type]
    counted = count_table(log, name, train, buckets, memory, folder)
    keys, missing = counted.keys, counted.missing
    id_counts = new_map(folder / "base_counts", table.rows, np.int64)
    extend = options.extend and dictionary is not None
    new = Spill(folder, {"new.keys": 0, "new.counts": 0, "new.seen": 0})
    for start, stop in slices(0, len(keys)):
        some, times = keys[start:stop], counted.counts[start:stop]
        if buckets is None:
            ids = encoder.ids(some, np.zeros(len(some), dtype=np.bool_))
        else:  # the keys are buckets already
            ids = np.asarray(base.buckets(name))[some]
        unknown = (ids == table.unseen) & extend
        seen = counted.seen[start:stop][unknown]
        new.append({"new.keys": some[unknown], "new.counts": times[unknown], "new.seen": seen})
        np.add.at(id_counts, ids[~unknown], times[~unknown])
    new.close()
    of_missing = None
    if table.missing is not None:
        id_counts[table.missing] += missing
    elif extend and counted.missing_seen >= options.min_count:
        of_missing = missing
    else:
        id_counts[table.unseen] += missing
    if dictionary is None:
        (folder / "base_counts").replace(folder / "id_counts")
        np.asarray(base.buckets(name)).tofile(folder / "buckets")
        return asdict(replace(table, ranked=False))
    ranked = _rank_new(log, name, options, memory, folder, texts, id_counts, table, of_missing)
    _join(folder, "id_counts", [id_counts, mapped(folder / "id_counts", np.int64)])
    (folder / "base_counts").unlink(missing_ok=True)
    _write_dictionary(folder, dictionary, table, ranked)
    if table.buckets:
        np.asarray(base.buckets(name)).tofile(folder / "buckets")
    missing_id = table.missing if ranked.missing is None else ranked.missing
    rows = table.rows + ranked.rows
    return asdict(replace(table, rows=rows, missing=missing_id, ranked=False))


def _rank_new(
    log: Log,
    name: str,
    options: Options,
    memory: Memory,
    folder: Path,
    texts: Path,
    id_counts: Array,
    table: Table,
    missing: int | None,
) -> Ranked:
    """Rank the values that the data set does not have; those too rare stay unseen."""
    kind = log.kinds[name]
    keys = mapped(folder / "new.keys", log.key_dtype(name))
    counts, seen = (mapped(folder / f"new.{name}", np.int64) for name in ("counts", "seen"))
    new = Counted(keys, counts, seen, 0, 0)
    id_counts[table.unseen] += keep(folder, kind, new, options.min_count, texts, memory.work // 8)
    vocabulary = Vocabulary.load(folder, kind)
    ranked = rank_table(folder, vocabulary, 0, missing, None, memory.keys * 4, first=table.rows)
    write_dictionary(folder, vocabulary, ranked, kind, table.rows)
    return ranked


def _write_dictionary(folder: Path, base: Dictionary, table: Table, ranked: Ranked) -> None:
    """The old ids' values, the new ones', and behind both the values that share buckets."""
    dtype = base.values.dtype
    added = mapped(folder / "values", dtype)
    if base.offsets is None:
        _join(folder, "values", [base.values[: table.rows], added, base.values[table.rows :]])
        return
    offsets = mapped(folder / "offsets", np.int64)
    cut, end = int(base.offsets[table.rows]), int(base.offsets[-1])
    old, behind = base.offsets[: table.rows + 1], base.offsets[table.rows + 1 :] + len(added)
    _join(folder, "offsets", [old, offsets[1 : ranked.rows + 1] + cut, behind])
    _join(folder, "values", [base.values[:cut], added, base.values[cut:end]])


def _join(folder: Path, name: str, pieces: list[Array]) -> None:
    with (folder / f"{name}.joined").open("wb") as file:
        for piece in pieces:
            for start, stop in slices(0, len(piece)):
                file.write(np.ascontiguousarray(piece[start:stop]).tobytes())
    (folder / f"{name}.joined").replace(folder / name)
