"""A count for each row, and where it began: what several rules gather."""

from __future__ import annotations

import numpy as np

from slipstream.data.inputs import Array
from slipstream.embedding.store import in_memory
from slipstream.skipping import kernels
from slipstream.skipping.context import Context


def accesses_so_far(context: Context) -> Array:
    """A count for each row, at zero."""
    return in_memory((context.reader.rows, 1)).view(np.uint32)[:, 0]


def left_to_learn(counts: Array) -> Array:
    """What one more access teaches rows that were accessed so often."""
    out = in_memory((len(counts), 1)).view(np.float32)[:, 0]
    kernels.left_to_learn(counts, out)
    return out
