"""How unevenly rows are accessed: the share of accesses that the most popular rows take."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from slipstream.arrays import Array


def pooled(counts: Iterable[Array]) -> Array:
    """The access counts of several tables as if they were one, most accessed first."""
    together = np.concatenate([np.asarray(array) for array in counts])
    return np.sort(together)[::-1]


def top_share(counts: Array, share: float) -> float:
    """The share of accesses that the top `share` of rows take; at least one row counts.

    Args:
        counts: Accesses of each row, most accessed first.
        share: Of the rows, from 0 to 1.

    Example:
        >>> top_share(np.array([90, 5, 3, 2]), 0.25)
        0.9
    """
    total = int(counts.sum())
    rows = max(1, round(len(counts) * share))
    return int(counts[:rows].sum()) / total if total else 0.0


def access_curve(counts: Array, points: int = 200) -> tuple[Array, Array]:
    """Points of the access curve: shares of the rows, and of the accesses that they take.

    Args:
        counts: Accesses of each row, most accessed first.
        points: How many, evenly spaced on a logarithmic axis.
    """
    rows = np.unique(np.rint(np.geomspace(1, len(counts), points)).astype(np.int64))
    covered = np.cumsum(counts)[rows - 1]
    return rows / len(counts), covered / max(1, int(counts.sum()))
