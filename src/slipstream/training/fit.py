"""Whether a data set gives values the ids that a run was trained with."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from slipstream.data.dataset import Dataset
from slipstream.data.layout import table_file
from slipstream.data.schema import Schema
from slipstream.errors import DataError
from slipstream.training.build import longest

_SHOWN = 3


def described(dataset: Dataset) -> dict[str, Any]:
    """What a checkpoint says of the data set, as JSON: enough to build the model without it.

    Args:
        dataset: What the run is trained on.
    """
    names = [table.name for table in dataset.schema.tables]
    return {
        "schema": dataset.schema.to_json(),
        "lengths": longest(dataset),
        "ids": {name: ids_of(dataset, name) for name in names},
    }


def ids_of(dataset: Dataset, table: str) -> str:
    """A short text that two data sets share if the same value has the same id in both.

    It is made of the dictionary and the buckets of a table. Of a table without either, whose ids
    were given, nothing is known but the number of its rows.

    Example:
        >>> ids_of(dataset, "ad") == ids_of(dataset, "site")
        False
    """
    one = dataset.schema.table(table)
    digest = hashlib.sha256(f"{one.rows} {one.values} {one.hashed} {one.buckets}".encode())
    if one.values is not None or one.buckets:
        digest.update(f" {one.unseen} {one.missing}".encode())
    arrays = {}
    dictionary, buckets = dataset.dictionary(table), dataset.buckets(table)
    if dictionary is not None:
        arrays.update(dictionary.arrays())
    if buckets is not None:
        arrays["buckets"] = buckets
    for what in sorted(arrays):
        info = dataset.manifest.files.get(table_file(dataset.schema, table, what))
        if info is not None:
            digest.update(f" {what} {info.sha256}".encode())
        else:  # in memory
            data = np.ascontiguousarray(arrays[what]).view(np.uint8)
            digest.update(f" {what} {hashlib.sha256(data.data).hexdigest()}".encode())
    return digest.hexdigest()


def check_fits(dataset: Dataset, saved: dict[str, Any], run: object) -> None:
    """Raise an error where a data set has other columns, or other ids, than a run.

    Args:
        dataset: The data set.
        saved: What `described` gave of the run's own.
        run: What to call the run.
    """
    where = dataset.folder or "the data set"
    check_columns(dataset, saved, run)
    schema = Schema.from_json(saved["schema"])
    odd = [t.name for t in schema.tables if ids_of(dataset, t.name) != saved["ids"][t.name]]
    if odd:
        names = ", ".join(map(repr, odd[:_SHOWN])) + (" and others" if len(odd) > _SHOWN else "")
        rows = dataset.schema.table(odd[0]).rows
        raise DataError(
            f"{where} gives values other ids than the run in {run} was trained with: the tables "
            f"{names} differ ({odd[0]!r} has {rows:,} rows here and "
            f"{schema.table(odd[0]).rows:,} there). Prepare it with the run's dictionary "
            "(slipstream prepare --dictionary, without --extend), or train on it, with "
            "--init-from to take over what has been learned."
        )


def check_columns(dataset: Dataset, saved: dict[str, Any], run: object) -> None:
    """Raise an error where a data set has other columns or dense values than a run."""
    theirs, mine = Schema.from_json(saved["schema"]), dataset.schema
    for what, here, there in (
        ("columns", _columns(mine), _columns(theirs)),
        ("dense values", list(mine.dense), list(theirs.dense)),
    ):
        if here != there:
            odd = [one for one in (*here, *there) if (one in here) != (one in there)]
            raise DataError(
                f"{dataset.folder or 'The data set'} has other {what} than the run in {run}: "
                f"{odd[0] if odd else 'their order'} differs. Use a data set of the same format "
                "and schema."
            )


def _columns(schema: Schema) -> list[str]:
    return [f"{one.name!r} ({one.kind}, table {one.table!r})" for one in schema.columns]
