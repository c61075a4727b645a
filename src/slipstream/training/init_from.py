"""Warm start: a run begins with the weights of another run, whose rows are matched by value."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.arrays import Array
from slipstream.config import Config
from slipstream.data.dataset import Dataset
from slipstream.data.encoder import dictionary_keys
from slipstream.data.schema import Schema, Table
from slipstream.errors import ConfigError, did_you_mean
from slipstream.models import Model
from slipstream.models.inputs import LINEAR
from slipstream.pipeline.dense import weights_for
from slipstream.pipeline.engine import Engine
from slipstream.tables.store import RowStore
from slipstream.training.checkpoint import WholeCheckpoint, dense_of, rows_of
from slipstream.training.checkpoint.contents import SavedTable
from slipstream.training.checkpoint.restore import stored_weights
from slipstream.training.dataset_compatibility import ids_digest
from slipstream.training.load_run import dataset_of_run, newest_checkpoint
from slipstream.training.run import Run

_AT_ONCE = 1 << 18
_NONE = -1


class WarmStart:
    """The weights of another run's newest checkpoint, matched to a new model.

    The dense part must have the same shapes. A row is copied to the row of the same value, whatever
    its id is in either data set. Values that the other run has not seen keep their fresh row. The
    rows for unseen and for missing values are matched to each other, and so are hash buckets if
    both tables have the same number. Optimizer state starts fresh, because it belongs to the other
    run's learning rates and data.

    The constructor raises an error about all that does not fit, before any row is changed.
    """

    def __init__(
        self,
        run: str | Path,
        model: Model,
        dataset: Dataset,
        on_message: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.run, self._on_message = run, on_message
        other = Run.open(Path(run))
        self._checkpoint = newest_checkpoint(other)
        for warning in self._checkpoint.warnings:
            on_message(warning)
        try:
            weights_for(model, dense_of(self._checkpoint))
        except ConfigError as error:
            raise ConfigError(
                f"The weights of the run in {run} cannot be used here. {error}"
            ) from None
        self._saved = {table.name: table for table in self._checkpoint.contents.tables}
        matcher = _Matcher(other, self._checkpoint, dataset)
        source = cache(matcher.source)
        self._sources = {}
        for table in model.layout.tables:
            if table.name not in self._saved:
                raise ConfigError(
                    f"The run in {run} has no table {table.name!r}, so its weights cannot be used "
                    f"here.{did_you_mean(table.name, self._saved)}"
                )
            if (dim := self._saved[table.name].dim) != table.dim:
                raise ConfigError(
                    f"The rows of table {table.name!r} have {dim} elements in the run in {run} and "
                    f"{table.dim} here: give the same dim."
                )
            self._sources[table.name] = source(table.name.removesuffix(LINEAR))

    def fill(self, engine: Engine) -> dict[str, Any]:
        """Copy weights and rows into an engine; rows without a match keep their first values."""
        engine.dense.load_weights(dense_of(self._checkpoint))
        tables = {}
        for store in engine.tables.stores:
            for table in store.group.tables:
                saved, source = self._saved[table.name], self._sources[table.name]
                count = _copy_rows(store, saved, self._checkpoint, source)
                tables[table.name] = {"rows": table.rows, "copied": count}
        position = self._checkpoint.state["training"]["position"]
        counts = ", ".join(f"{n} {c['copied']:,} of {c['rows']:,}" for n, c in tables.items())
        self._on_message(f"Rows copied from {self.run}, as of example {position:,}: {counts}.")
        return {"run": str(self.run), "position": position, "tables": tables}


def with_full_path(config: Config, folder: Path | None) -> Config:
    """The configuration with the full path of `init_from`, which must not be the new run itself."""
    if config.init_from is None:
        return config
    other = Path(config.init_from)
    if folder is not None and other.resolve() == folder.resolve():
        raise ConfigError(f"{folder} cannot begin from itself. Choose another folder.")
    return config.replace(init_from=str(other.absolute()))


def warm_start(
    config: Config, model: Model, dataset: Dataset, on_message: Callable[[str], None]
) -> WarmStart | None:
    """The warm start of a configuration with `init_from`; None without."""
    run = config.init_from
    return None if run is None else WarmStart(run, model, dataset, on_message)


class _Matcher:
    """Finds the old row of every new row of a table."""

    def __init__(self, run: Run, checkpoint: WholeCheckpoint, dataset: Dataset) -> None:
        self.run, self.checkpoint, self.dataset = run, checkpoint, dataset
        self.schema = Schema.from_json(checkpoint.state["data"]["schema"])

    @cached_property
    def old_dataset(self) -> Dataset:
        """The data set of the other run; it is opened only if ids differ."""
        return dataset_of_run(self.run.folder, self.run.config, self.checkpoint)

    def source(self, name: str) -> Array | None:
        """The old id of each new id, -1 where there is none; None if all ids are the same."""
        if self.checkpoint.state["data"]["ids"].get(name) == ids_digest(self.dataset, name):
            return None
        old, new = self.schema.table(name), self.dataset.schema.table(name)
        if (old.values or old.hashed) != (new.values or new.hashed):
            raise ConfigError(
                f"Table {name!r} has {old.values or old.hashed or 'no'} values in the run in "
                f"{self.run.folder} and {new.values or new.hashed or 'no'} values here: rows "
                "cannot be matched."
            )
        if new.values is None or old.values is None:
            return self._by_bucket(old, new)
        source = np.full(new.rows, _NONE, dtype=np.int64)
        dictionary, encoder = self.dataset.dictionary(name), self.old_dataset.encoder(name)
        assert dictionary is not None, "a table with values has a dictionary"
        for start in range(0, new.rows, _AT_ONCE):
            stop = min(start + _AT_ONCE, new.rows)
            keys = dictionary_keys(dictionary, start, stop)
            ids = encoder.ids(keys, np.zeros(len(keys), dtype=np.bool_))
            source[start:stop] = np.where(ids == old.unseen, _NONE, ids)
        # The dictionary has no meaning at the ids of buckets, unseen and missing values.
        return self._with_special(source, old, new)

    def _by_bucket(self, old: Table, new: Table) -> Array | None:
        """Match hashed tables with equally many buckets, or tables whose ids the user gave."""
        has_own_ids = not old.buckets and not new.buckets
        if old.values != new.values or (
            old.rows != new.rows if has_own_ids else old.buckets != new.buckets
        ):
            raise ConfigError(
                f"Table {new.name!r} has {old.rows:,} rows in the run in {self.run.folder} and "
                f"{new.rows:,} here, and no dictionary to match them with. Prepare both data sets "
                "alike, or with a dictionary."
            )
        if has_own_ids:
            return None
        return self._with_special(np.full(new.rows, _NONE, dtype=np.int64), old, new)

    def _with_special(self, source: Array, old: Table, new: Table) -> Array:
        """Match the ids that stand for no single value: buckets, unseen, missing."""
        buckets = self.dataset.buckets(new.name)
        old_buckets = self.old_dataset.buckets(new.name)
        if buckets is not None:
            source[buckets] = _NONE
            if old_buckets is not None and len(old_buckets) == len(buckets):
                # A bucket that was empty in training has the id of unseen values.
                source[buckets] = np.where(old_buckets == old.unseen, _NONE, old_buckets)
        source[new.unseen] = old.unseen
        if new.missing is not None:
            source[new.missing] = _NONE if old.missing is None else old.missing
        return source


def _copy_rows(
    store: RowStore, saved: SavedTable, checkpoint: WholeCheckpoint, source: Array | None
) -> int:
    """Copy saved rows to their new ids, file by file; returns how many new rows were filled."""
    start = store.group.start(saved.name)
    order: Array | None = None
    if source is not None:
        order = np.argsort(source, kind="stable")
        ranks = source[order]
    count = 0
    for first, fields in rows_of(checkpoint, saved.name):
        values = stored_weights(store, fields, saved.storage)
        stop = first + len(fields["weight"])
        if order is None:
            for name, array in values.items():
                store.views[name][start + first : start + stop] = array
            count += stop - first
            continue
        low, high = np.searchsorted(ranks, (first, stop))
        for begin in range(low, high, _AT_ONCE):
            end = min(begin + _AT_ONCE, high)
            rows, old = start + order[begin:end], ranks[begin:end] - first
            for name, array in values.items():
                store.views[name][rows] = array[old]
        count += int(high - low)
    return count
