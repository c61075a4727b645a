"""Vectors of a batch that is only looked up, on a device: kept rows are there, the others come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from slipstream.data.batch import Batch
from slipstream.data.inputs import Array
from slipstream.embedding.device.arena import Arena
from slipstream.embedding.kernels import cold
from slipstream.embedding.kernels.gpu import lookup
from slipstream.embedding.kernels.gpu.place import place
from slipstream.embedding.spec import Embedded
from slipstream.embedding.store import RowStore
from slipstream.plan import Numbered

_VALUES = {"fp32": torch.float32, "fp64": torch.float64}


def vectors_of(batch: Batch, arena: Arena, slow: Sequence[RowStore]) -> Embedded | None:
    """The vectors of a batch, while every row is as it is now in the slow store too.

    Args:
        batch: Its features are all single.
        arena: The slots, of which rows that stay are looked at.
        slow: Every row.

    Returns:
        None where an id is out of range.
    """
    device = arena.device
    ids = batch.ids.to(device, torch.int32)
    n_valid = torch.tensor([batch.n_valid], dtype=torch.int32, device=device)
    span = torch.tensor([0, batch.capacity], dtype=torch.int32, device=device)
    none = torch.zeros(0, dtype=torch.int32, device=device)
    made = []
    for number, (group, found) in enumerate(zip(arena.layout.groups, arena.numbered, strict=True)):
        features = len(group.features)
        slots = torch.empty((features, batch.capacity), dtype=torch.int32, device=device)
        where = (found.columns, found.limits, found.bases)
        on_device = (one.to(device) for one in where)
        place(ids, n_valid, *on_device, none, none, n_valid, slots)
        shape = arena.shapes[number]
        vectors = torch.empty(
            (batch.capacity, features, group.dim), dtype=shape.dtype, device=device
        )
        every = torch.arange(features, dtype=torch.int32, device=device)
        lookup.singles(arena.records[number], slots, every, span, vectors, list(shape))
        others = _others(batch, found)
        if others is None:
            return None
        places, rows = others
        if len(rows):
            weights = _weights(slow[number], rows).to(device, shape.dtype)
            at = torch.from_numpy(places).to(device, torch.int64)
            vectors.view(-1, group.dim).index_copy_(0, at, weights)
        made.append(vectors)
    return Embedded(tuple(made))


def _weights(store: RowStore, rows: Array) -> Tensor:
    """Some rows as the forward pass sees them, still as they are stored."""
    records = torch.from_numpy(store.records[rows])
    values = records.view(_VALUES.get(store.group.storage, torch.bfloat16))
    return values[:, : store.group.dim]


def _others(batch: Batch, found: Numbered) -> tuple[Array, Array] | None:
    """The lookups of rows that do not stay: their places, and their rows."""
    columns = found.columns.numpy()
    n, lookups = batch.n_valid, batch.n_valid * len(columns)
    ids = np.ascontiguousarray(batch.ids.numpy()[:n][:, columns])
    ids = ids.view(np.uint32 if ids.itemsize == 4 else np.uint64)
    places, rows = np.empty(lookups, dtype=np.int32), np.empty(lookups, dtype=np.int64)
    bounds = np.empty(2, dtype=np.int64)
    wrong = cold.scan(
        ids,
        n,
        max(1, n),
        found.limits.numpy().astype(ids.dtype),
        found.starts.numpy(),
        found.sizes.numpy(),
        places,
        rows,
        bounds,
    )
    return None if wrong else (places[: bounds[1]], rows[: bounds[1]])
