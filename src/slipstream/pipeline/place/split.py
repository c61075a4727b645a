"""Each batch in two parts: popular examples first, the rest after (Hotline)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from slipstream.arrays import Array
from slipstream.data.batch import Batch, ListBatch


def in_two(batch: Batch, popular: Array) -> tuple[Batch, tuple[int, ...]]:
    """A batch with its popular examples first, and where the rest begins.

    Both keep their order. A batch of one kind only is left as it is, in one part.

    Args:
        batch: The batch.
        popular: Whether each of its inputs is; without padding.
    """
    first = int(popular.sum())
    if first in (0, len(popular)):
        return batch, ()
    order = np.concatenate(
        [
            np.flatnonzero(popular),
            np.flatnonzero(~popular),
            np.arange(batch.n_valid, batch.capacity),
        ]
    )
    places = torch.from_numpy(order)
    moved = {
        name: getattr(batch, name)[places]
        for name in ("example_numbers", "labels", "weights", "dense", "ids")
    }
    more: dict[str, Any] = {
        name: None if (values := getattr(batch, name)) is None else values[places]
        for name in ("times", "logit_offset")
    }
    lists = {name: _moved(column, order) for name, column in batch.lists.items()}
    return replace(batch, **moved, **more, lists=lists, read_block=None), (first,)


def _moved(column: ListBatch, order: Array) -> ListBatch:
    starts = column.offsets.numpy()
    lengths = np.diff(starts)[order]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    places = np.arange(offsets[-1]) + np.repeat(starts[:-1][order] - offsets[:-1], lengths)
    return ListBatch(column.values[torch.from_numpy(places)], torch.from_numpy(offsets))
