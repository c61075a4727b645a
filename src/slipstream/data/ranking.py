"""Turns how often each value occurs into popularity ranks: the ids of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slipstream.arrays import Array


@dataclass(frozen=True)
class Ranking:
    """The ids of one table."""

    ids: Array  # the id of each value; values that share the unseen id included
    counts: Array  # how often each id occurs, never rising
    values: Array  # the value behind each id; -1 at the unseen id
    unseen: int  # the id of every value that is not known


def rank(
    counts: Array, *, min_count: int = 2, ties: Callable[[Array], Array] | None = None
) -> Ranking:
    """Rank values by count: 0 is the most popular.

    Values seen fewer than `min_count` times share the unseen id, whose rank follows from the
    sum of their counts; with 0 every value has an id of its own. Among equal counts the smaller
    value comes first, or the value with the smaller of the uint32 keys that `ties` returns for
    the values it gets; the unseen id comes last.

    Example:
        >>> rank(np.array([1, 5, 7, 1])).ids.tolist()
        [2, 1, 0, 2]
    """
    counts = np.asarray(counts, dtype=np.int64)
    frequent = np.flatnonzero(counts >= min_count)
    rest = int(counts.sum() - counts[frequent].sum())
    by_rank = frequent[_order(counts[frequent], ties(frequent) if ties else None)]
    unseen = int(np.searchsorted(-counts[by_rank], -rest, side="right"))
    values = np.insert(by_rank, unseen, -1)
    ids = np.full(len(counts), unseen, dtype=np.int64)
    ids[by_rank] = np.arange(len(by_rank)) + (np.arange(len(by_rank)) >= unseen)
    return Ranking(ids, np.insert(counts[by_rank], unseen, rest), values, unseen)


def _order(counts: Array, ties: Array | None) -> Array:
    """Indices by falling count, then by rising tie key."""
    if ties is None:
        return np.argsort(-counts, kind="stable")
    highest = int(counts.max(initial=0))
    if highest < 2**32:  # both fit one key, and one sort of whole numbers is the fastest
        keys = ((highest - counts).astype(np.uint64) << np.uint64(32)) | ties.astype(np.uint64)
        return np.argsort(keys, kind="stable")
    return np.lexsort((ties, -counts))
