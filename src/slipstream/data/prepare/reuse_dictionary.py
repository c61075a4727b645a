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
    """Raise an error where a log has other columns or values than the data set.

    Args:
        base: The data set.
        log: The log.
        extend: Whether new values are to get ids of their own.
    """
    given = [(c.name, c.table, c.kind) for c in base.schema.columns]
    wanted = [(c.name, c.table, c.kind) for c in log.columns]
    if given != wanted:
        odd = next(
            iter(
                [c for c in wanted if c not in given]
                or [c for c in given if c not in wanted]
                or wanted
            )
        )
        raise DataError(
            f"{base.folder} does not fit this log: they differ in column {odd[0]!r}. Use the data "
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
    """Count with the ids of another data set, new values behind them; gives the table as JSON."""
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
    _write_counts(folder, id_counts)
    _write_dictionary(folder, dictionary, table, ranked)
    if table.buckets:
        np.asarray(base.buckets(name)).tofile(folder / "buckets")
    unranked = replace(
        table,
        rows=table.rows + ranked.rows,
        missing=table.missing if ranked.missing is None else ranked.missing,
        ranked=False,
    )
    return asdict(unranked)


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
    counts, seen = (mapped(folder / f"new.{what}", np.int64) for what in ("counts", "seen"))
    new = Counted(keys, counts, seen, 0, 0)
    id_counts[table.unseen] += keep(folder, kind, new, options.min_count, texts, memory.work // 8)
    kept = Vocabulary.load(folder, kind)
    ranked = rank_table(folder, kept, 0, missing, None, memory.keys * 4, first=table.rows)
    write_dictionary(folder, kept, ranked, kind, table.rows)
    return ranked


def _write_counts(folder: Path, base: Array) -> None:
    added = mapped(folder / "id_counts", np.int64)
    with (folder / "all_counts").open("wb") as file:
        for counts in (base, added):
            for start, stop in slices(0, len(counts)):
                file.write(counts[start:stop].astype("<i8").tobytes())
    (folder / "all_counts").replace(folder / "id_counts")
    (folder / "base_counts").unlink(missing_ok=True)


def _write_dictionary(folder: Path, base: Dictionary, table: Table, ranked: Ranked) -> None:
    """The old ids' values, the new ones', and behind both the values that share buckets."""
    dtype = base.values.dtype
    added = mapped(folder / "values", dtype)
    if base.offsets is None:
        pieces = [base.values[: table.rows], added, base.values[table.rows :]]
        _join(folder, "values", pieces)
        return
    offsets = mapped(folder / "offsets", np.int64)
    cut, end = int(base.offsets[table.rows]), int(base.offsets[-1])
    shift = len(added)
    _join(
        folder,
        "offsets",
        [
            base.offsets[: table.rows + 1],
            offsets[1 : ranked.rows + 1] + cut,
            base.offsets[table.rows + 1 :] + shift,
        ],
    )
    _join(folder, "values", [base.values[:cut], added, base.values[cut:end]])


def _join(folder: Path, name: str, pieces: list[Array]) -> None:
    with (folder / f"{name}.joined").open("wb") as file:
        for piece in pieces:
            for start, stop in slices(0, len(piece)):
                file.write(np.ascontiguousarray(piece[start:stop]).tobytes())
    (folder / f"{name}.joined").replace(folder / name)
