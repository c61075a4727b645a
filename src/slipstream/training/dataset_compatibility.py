"""Checks that a data set has the columns and the ids that a run was trained with."""

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


def dataset_description(dataset: Dataset) -> dict[str, Any]:
    """What a checkpoint stores about the data set: enough to build the model without it."""
    names = [table.name for table in dataset.schema.tables]
    return {
        "schema": dataset.schema.to_json(),
        "lengths": longest(dataset),
        "ids": {name: ids_digest(dataset, name) for name in names},
    }


def ids_digest(dataset: Dataset, table: str) -> str:
    """A digest that is equal for two data sets if the same value has the same id in both.

    It covers the dictionary and the hash buckets of a table. A table without either, whose ids
    come from the user, is identified by its number of rows only.
    """
    spec = dataset.schema.table(table)
    digest = hashlib.sha256(f"{spec.rows} {spec.values} {spec.hashed} {spec.buckets}".encode())
    if spec.values is not None or spec.buckets:
        digest.update(f" {spec.unseen} {spec.missing}".encode())
    arrays = {}
    dictionary, buckets = dataset.dictionary(table), dataset.buckets(table)
    if dictionary is not None:
        arrays.update(dictionary.arrays())
    if buckets is not None:
        arrays["buckets"] = buckets
    for name in sorted(arrays):
        info = dataset.manifest.files.get(table_file(dataset.schema, table, name))
        if info is not None:
            digest.update(f" {name} {info.sha256}".encode())
        else:  # in memory
            data = np.ascontiguousarray(arrays[name]).view(np.uint8)
            digest.update(f" {name} {hashlib.sha256(data.data).hexdigest()}".encode())
    return digest.hexdigest()


def check_same_ids(dataset: Dataset, saved: dict[str, Any], run: object) -> None:
    """Raise an error if a data set has other columns or other ids than a run."""
    schema = Schema.from_json(saved["schema"])
    _check_same_columns(dataset, schema, run)
    other = [t.name for t in schema.tables if ids_digest(dataset, t.name) != saved["ids"][t.name]]
    if other:
        names = ", ".join(map(repr, other[:_SHOWN])) + (" and others" if other[_SHOWN:] else "")
        rows = dataset.schema.table(other[0]).rows
        raise DataError(
            f"{dataset.folder or 'the data set'} has other ids for the same values than the run in "
            f"{run}: the tables {names} differ ({other[0]!r} has {rows:,} rows here and "
            f"{schema.table(other[0]).rows:,} in the run). Prepare it with the dictionary of the "
            "run's data set (slipstream prepare --dictionary, without --extend), or train a new "
            "run on it with --init-from."
        )


def _check_same_columns(dataset: Dataset, of_run: Schema, run: object) -> None:
    for kind, here, there in (
        ("columns", _columns(dataset.schema), _columns(of_run)),
        ("dense values", list(dataset.schema.dense), list(of_run.dense)),
    ):
        if here != there:
            other = [name for name in (*here, *there) if (name in here) != (name in there)]
            raise DataError(
                f"{dataset.folder or 'The data set'} has other {kind} than the run in {run}: "
                f"{other[0] if other else 'their order'} differs. Use a data set of the same "
                "format and schema."
            )


def _columns(schema: Schema) -> list[str]:
    return [f"{c.name!r} ({c.kind}, table {c.table!r})" for c in schema.columns]
