"""How unevenly the rows of a data set are accessed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from slipstream.arrays import Array


def pooled(counts: Iterable[Array]) -> Array:
    """The access counts of several tables as if they were one, most accessed first."""
    return np.sort(np.concatenate([np.asarray(array) for array in counts]))[::-1]


def top_share(counts: Array, share: float) -> float:
    """The share of accesses that the top `share` of rows take; at least one row counts.

    Example:
        >>> top_share(np.array([90, 5, 3, 2]), 0.25)
        0.9
    """
    total = int(counts.sum())
    rows = max(1, round(len(counts) * share))
    return int(counts[:rows].sum()) / total if total else 0.0
