"""Warm start: a run begins with the weights of another, rows matched through the dictionaries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.config import Config
from slipstream.data.dataset import Dataset
from slipstream.data.encoder import dictionary_keys
from slipstream.data.inputs import Array
from slipstream.data.schema import Schema, Table
from slipstream.embedding.spec import TableSpec
from slipstream.embedding.store import RowStore
from slipstream.errors import ConfigError, did_you_mean
from slipstream.models import Model
from slipstream.models.inputs import LINEAR
from slipstream.training.checkpoint import WholeCheckpoint, dense_of, rows_of
from slipstream.training.checkpoint.contents import SavedTable
from slipstream.training.checkpoint.restore import stored_weights
from slipstream.training.dense import weights_for
from slipstream.training.engine import Engine
from slipstream.training.fit import ids_of
from slipstream.training.restored import last_saved, training_data
from slipstream.training.run import Run

_AT_ONCE = 1 << 18
_NONE = -1


class WarmStart:
    """The weights of another run's newest checkpoint, matched to a model that is to begin.

    The dense part must have the same shapes. A row is taken over by the value that it stands for,
    whatever its id is in either data set; values that the other run has not seen keep their fresh
    row. The rows for unseen and for missing values are matched as such, and so are buckets where
    there are as many. Optimizer state starts fresh: it belongs to the rates and the data that it
    was made with.

    What does not fit is an error when this is made, before anything is filled.

    Args:
        run: The folder of the other run.
        model: The model that is to begin.
        dataset: The data set that it will be trained on.
        say: Told a sentence that a user should see.
    """

    def __init__(
        self,
        run: str | Path,
        model: Model,
        dataset: Dataset,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.run, self._say = run, say
        other = Run.open(Path(run))
        self._found = last_saved(other)
        for warning in self._found.warnings:
            say(warning)
        try:
            weights_for(model, dense_of(self._found))
        except ConfigError as error:
            raise ConfigError(
                f"The weights of the run in {run} cannot be taken over. {error}"
            ) from None
        self._saved = {table.name: table for table in self._found.contents.tables}
        match = _Match(other, self._found, dataset)
        self._sources = {}
        for table in model.layout.tables:
            self._check(table)
            self._sources[table.name] = match.source(table.name.removesuffix(LINEAR))

    def fill(self, engine: Engine) -> dict[str, Any]:
        """Put weights and rows in their places; the rest keeps its first values.

        Returns:
            What was taken over: the run, where it stood, and the rows of each table.
        """
        engine.dense.load_weights(dense_of(self._found))
        taken = {}
        for store in engine.tables.stores:
            for table in store.group.tables:
                saved, source = self._saved[table.name], self._sources[table.name]
                count = _take(store, saved, self._found, source)
                taken[table.name] = {"rows": table.rows, "taken": count}
        position = self._found.state["training"]["position"]
        shares = ", ".join(f"{n} {one['taken']:,} of {one['rows']:,}" for n, one in taken.items())
        self._say(f"Rows taken over from {self.run} as of input {position:,}: {shares}.")
        return {"run": str(self.run), "position": position, "tables": taken}

    def _check(self, table: TableSpec) -> None:
        if table.name not in self._saved:
            raise ConfigError(
                f"The run in {self.run} has no table {table.name!r}, so its weights cannot be "
                f"taken over.{did_you_mean(table.name, self._saved)}"
            )
        dim = self._saved[table.name].dim
        if dim != table.dim:
            raise ConfigError(
                f"The rows of table {table.name!r} have {dim} elements in the run in {self.run} "
                f"and {table.dim} here: give the same dim."
            )


def located(config: Config, begun: Path | None) -> Config:
    """With the full path of the other run; an error if that is the folder that is to be begun."""
    if config.init_from is None:
        return config
    other = Path(config.init_from)
    if begun is not None and other.resolve() == begun.resolve():
        raise ConfigError(f"{begun} cannot be begun from itself. Choose another folder.")
    return replace(config, init_from=str(other.absolute()))


def warm_start(
    config: Config, model: Model, dataset: Dataset, say: Callable[[str], None]
) -> WarmStart | None:
    """The warm start that a configuration asks for, if it does."""
    run = config.init_from
    return None if run is None else WarmStart(run, model, dataset, say)


class _Match:
    """For each table the old row of every new one, worked out once."""

    def __init__(self, run: Run, found: WholeCheckpoint, dataset: Dataset) -> None:
        self.run, self.found, self.dataset = run, found, dataset
        self.schema = Schema.from_json(found.state["data"]["schema"])
        self._old: Dataset | None = None
        self._known: dict[str, Array | None] = {}

    @property
    def old(self) -> Dataset:
        """The data set of the other run, which is opened only where ids differ."""
        if self._old is None:
            self._old = training_data(self.run.folder, self.run.config, self.found)
        return self._old

    def source(self, table: str) -> Array | None:
        """The old id of each new one, -1 where there is none; None if they are the same."""
        if table not in self._known:
            self._known[table] = self._source(table)
        return self._known[table]

    def _source(self, name: str) -> Array | None:
        if self.found.state["data"]["ids"].get(name) == ids_of(self.dataset, name):
            return None
        was, now = self.schema.table(name), self.dataset.schema.table(name)
        if (was.values or was.hashed) != (now.values or now.hashed):
            raise ConfigError(
                f"Table {name!r} has {was.values or was.hashed or 'no'} values in the run in "
                f"{self.run.folder} and {now.values or now.hashed or 'no'} values here: rows "
                "cannot be matched."
            )
        if now.values is None or was.values is None:
            return self._by_bucket(was, now)
        source = np.full(now.rows, _NONE, dtype=np.int64)
        dictionary, encoder = self.dataset.dictionary(name), self.old.encoder(name)
        assert dictionary is not None, "a table with values has a dictionary"
        for start in range(0, now.rows, _AT_ONCE):
            stop = min(start + _AT_ONCE, now.rows)
            keys = dictionary_keys(dictionary, start, stop)
            ids = encoder.ids(keys, np.zeros(len(keys), dtype=np.bool_))
            source[start:stop] = np.where(ids == was.unseen, _NONE, ids)
        # What the dictionary says at the ids of buckets and of the rest means nothing.
        return self._with_special(source, was, now)

    def _by_bucket(self, was: Table, now: Table) -> Array | None:
        """Hashed tables, whose buckets match if they are as many; or ids that were given."""
        given = not was.buckets and not now.buckets
        if was.values != now.values or (
            was.rows != now.rows if given else was.buckets != now.buckets
        ):
            raise ConfigError(
                f"Table {now.name!r} has {was.rows:,} rows in the run in {self.run.folder} and "
                f"{now.rows:,} here, and no dictionary to match them with. Prepare both data sets "
                "alike, or with a dictionary."
            )
        if given:
            return None
        return self._with_special(np.full(now.rows, _NONE, dtype=np.int64), was, now)

    def _with_special(self, source: Array, was: Table, now: Table) -> Array:
        """Match the ids that stand for no single value: buckets, unseen, missing."""
        mine, theirs = self.dataset.buckets(now.name), self.old.buckets(now.name)
        if mine is not None:
            source[mine] = _NONE
            if theirs is not None and len(theirs) == len(mine):
                # A bucket that was empty in training has the id of what is unseen.
                source[mine] = np.where(theirs == was.unseen, _NONE, theirs)
        source[now.unseen] = was.unseen
        if now.missing is not None:
            source[now.missing] = _NONE if was.missing is None else was.missing
        return source


def _take(store: RowStore, saved: SavedTable, found: WholeCheckpoint, source: Array | None) -> int:
    """Put saved rows in their new places, file by file; gives how many new rows were filled."""
    start = store.group.start(saved.name)
    order: Array | None = None
    if source is not None:
        order = np.argsort(source, kind="stable")
        ranks = source[order]
    count = 0
    for first, fields in rows_of(found, saved.name):
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
