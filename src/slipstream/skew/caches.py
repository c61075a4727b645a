"""What a cache of so many slots would have missed of a trace: least recently used, and the best.

A trace is a sequence of rows, each to be in the cache when it is its turn.
"""

from __future__ import annotations

import heapq

import numpy as np

from slipstream.compiled import compiled
from slipstream.data.inputs import Array


def lru_distances(trace: Array) -> Array:
    """For each access how many other rows came since the last access to its row; -1 if none did.

    A cache of `slots` rows that drops the least recently used hits exactly where the distance is
    at least 0 and below `slots`: one pass gives every size.

    Example:
        >>> lru_distances(np.array([7, 8, 7, 7, 9, 8])).tolist()
        [-1, -1, 1, 0, -1, 2]
    """
    return _distances(_numbered(trace))


def best_misses(trace: Array, slots: int) -> int:
    """The fewest misses of any cache of `slots` rows that knows the whole trace.

    That is Belady's rule, drop the row whose next use is farthest, with whatever it likes in it
    at the start: no way to choose rows does with fewer, whatever it has done before the trace.

    Example:
        >>> best_misses(np.array([1, 2, 3, 1, 2, 3]), 2)
        2
    """
    if slots < 1:
        return len(trace)
    return int(_best(_numbered(trace), slots))


def _numbered(trace: Array) -> Array:
    """The rows of a trace as small numbers."""
    numbers: Array = np.unique(trace, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return numbers


@compiled
def _distances(trace: Array) -> Array:
    n = len(trace)
    marks = np.zeros(n + 1, dtype=np.int64)  # a Fenwick tree: 1 at the last access of each row
    last = np.full(n, -1, dtype=np.int64)
    out = np.full(n, -1, dtype=np.int64)
    for at in range(n):
        was = last[trace[at]]
        if was >= 0:
            between = 0
            k = at
            while k > 0:
                between += marks[k]
                k -= k & -k
            k = was + 1
            while k > 0:
                between -= marks[k]
                k -= k & -k
            out[at] = between
            k = was + 1
            while k <= n:
                marks[k] -= 1
                k += k & -k
        last[trace[at]] = at
        k = at + 1
        while k <= n:
            marks[k] += 1
            k += k & -k
    return out


@compiled
def _best(trace: Array, slots: int) -> int:
    n = len(trace)
    following = np.full(n, n, dtype=np.int64)  # where the row of this access comes next
    coming = np.full(n, n, dtype=np.int64)  # where each row comes next, as seen from here
    for back in range(n):
        at = n - 1 - back
        following[at] = coming[trace[at]]
        coming[trace[at]] = at
    inside = np.zeros(n, dtype=np.bool_)
    heap = [(-n - 1, np.int64(-1))]  # the farthest next use on top; stale entries are passed over
    held = 0
    for at in range(n):  # at the start: the rows that come first
        row = trace[at]
        if held < slots and coming[row] == at:
            inside[row] = True
            heapq.heappush(heap, (-at, row))
            held += 1
    misses = 0
    for at in range(n):
        row = trace[at]
        if not inside[row]:
            misses += 1
            if held == slots:
                while True:
                    top, old = heapq.heappop(heap)
                    if old < 0:
                        continue
                    if inside[old] and coming[old] == -top:
                        break
                inside[old] = False
                held -= 1
            inside[row] = True
            held += 1
        coming[row] = following[at]
        heapq.heappush(heap, (-coming[row], row))
    return misses
