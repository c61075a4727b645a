"""Where everything lies in a packed data set's folder: file names, dtypes and widths."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from slipstream.data.schema import Schema

PARTS = ("train", "validation", "evaluation")
MANIFEST = "manifest.json"
ROWS_PER_SHARD = 1 << 24


@dataclass(frozen=True)
class Field:
    """One file of a shard: an array of `dtype`, with `shape` values for each example."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()

    @cached_property
    def bytes_per_input(self) -> int:
        """Bytes that one example takes in the file."""
        return self.dtype.itemsize * math.prod(self.shape)


def fixed_fields(schema: Schema) -> dict[str, Field]:
    """The files of a shard that hold a fixed number of bytes for each example."""
    fields = {
        "labels": Field(np.dtype("<f4")),
        "ids": Field(schema.id_dtype.newbyteorder("<"), (len(schema.singles),)),
        "dense": Field(np.dtype("<f4"), (len(schema.dense),)),
    }
    if schema.weights:
        fields["weights"] = Field(np.dtype("<f4"))
    if schema.times:
        fields["times"] = Field(np.dtype("<i8"))
    return fields


def list_fields(schema: Schema) -> dict[str, np.dtype[Any]]:
    """The dtype of the values of each list column; their offsets are int64."""
    return {
        column.name: schema.table(column.table).id_dtype.newbyteorder("<")
        for column in schema.lists
    }


def shard_file(part: str, shard: int, field: str) -> str:
    """Path of one file of a shard, relative to the data set's folder."""
    return f"{part}/{shard:05d}.{field}"


def list_file(schema: Schema, part: str, shard: int, column: str, array: str) -> str:
    """Path of the `values` or `offsets` of a list column in a shard."""
    number = [c.name for c in schema.columns].index(column)
    return shard_file(part, shard, f"{number:02d}-{_slug(column)}.{array}")


def table_file(schema: Schema, table: str, array: str) -> str:
    """Path of a table's `counts` or raw `values`, relative to the data set's folder."""
    number = [t.name for t in schema.tables].index(table)
    return f"tables/{number:02d}-{_slug(table)}.{array}"


def _slug(name: str) -> str:
    """A file name for any name: columns may be called anything, also `../x`."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:60]
