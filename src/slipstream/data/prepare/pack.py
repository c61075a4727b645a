"""The last step: replaces values by ids and writes the parts of the data set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.arrays import Array
from slipstream.background import map_in_threads
from slipstream.data.encoder import Encoder
from slipstream.data.inputs import Examples, Ragged
from slipstream.data.layout import PARTS
from slipstream.data.prepare.log import Log
from slipstream.data.prepare.read import BAD_ROWS, Progress
from slipstream.data.prepare.resource_limits import Memory
from slipstream.data.prepare.state import State
from slipstream.data.prepare.tables import MadeTable, encoders
from slipstream.data.schema import Schema
from slipstream.data.writer import DatasetWriter

EventRange = tuple[str, int, int]  # the part, and its first and last event


def pack(
    writer: DatasetWriter,
    log: Log,
    ends: tuple[int, int, int],
    tables: dict[str, MadeTable],
    memory: Memory,
    state: State,
    progress: Progress,
) -> int:
    """Write all examples, from where the last run stopped; return how many there are."""
    notes: dict[str, Any] = state.notes["pack"]
    finders = encoders(tables, memory)
    schema = writer.schema
    width = sum(log.width(column) for column in log.columns) * 16
    size = memory.rows(width + 8 * log.inputs_per_event * (len(schema.dense) + 4))

    def encode(piece: EventRange) -> Examples:
        return _inputs(schema, log, finders, piece[1], piece[2])

    for (part, _, stop), inputs in map_in_threads(encode, _pieces(ends, notes["event"], size)):
        writer.append(part, inputs)
        notes["event"], notes["inputs"] = stop, notes["inputs"] + len(inputs)
        notes["writer"] = writer.position()
        state.save()
        progress("packing", stop, ends[-1])
    count: int = notes["inputs"]
    return count


def _pieces(ends: tuple[int, int, int], first: int, size: int) -> Iterator[EventRange]:
    start = 0
    for part, end in zip(PARTS, ends, strict=True):
        # Cut from the part's own beginning, so that a resumed run cuts at the same places.
        for begin in range(start, end, size):
            if begin >= first:
                yield part, begin, min(begin + size, end)
        start = end


def _inputs(
    schema: Schema, log: Log, finders: dict[str, Encoder], start: int, stop: int
) -> Examples:
    rows, drawn = log.examples(start, stop)
    spec = log.spec
    n = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
    ids = np.empty((n, len(schema.singles)), dtype=schema.id_dtype)
    lists: dict[str, Ragged] = {}
    place = 0
    for column in schema.columns:
        keys = log.column(column, start, stop)
        encoded = finders[column.table].ids(keys.keys, keys.missing)
        if keys.offsets is None:
            ids[:, place] = encoded
            place += 1
        else:
            narrow = schema.table(column.table).id_dtype
            lists[column.name] = Ragged(encoded.astype(narrow), keys.offsets)
    labels: Array = np.ones(n, dtype=np.float32)
    if spec.label is not None:
        labels = log.spilled("label", np.float32)[rows]
    if drawn is not None:
        labels = np.where(drawn >= 0, 0, labels).astype(np.float32)
    dense: Array = np.empty((n, 0), dtype=np.float32)
    if spec.dense:
        dense = log.spilled("dense", np.float32, len(spec.dense))[rows]
    return Examples(
        labels=labels,
        ids=ids,
        dense=dense,
        lists=lists,
        weights=log.spilled("weight", np.float32)[rows] if spec.weight else None,
        times=log.spilled("time", np.int64)[rows] // 1000 if spec.time else None,
    )


def add_bad_rows(writer: DatasetWriter, work: Path) -> None:
    """Put the list of bad rows into the data set, if there are any."""
    path = work / BAD_ROWS
    if path.is_file() and path.stat().st_size:
        header = b"file\tline\treason\twhat\n"
        writer.add_file(BAD_ROWS, np.frombuffer(header + path.read_bytes(), dtype=np.uint8))
