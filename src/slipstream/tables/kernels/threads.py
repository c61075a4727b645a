"""A pool of threads for compiled kernels, ours alone.

The threads are Python's, not OpenMP's: a second OpenMP pool beside torch's makes both crawl.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache
from itertools import pairwise

import torch

# Elements that are worth waking another thread for: below, the hand-over costs more than it saves.
SHARE = 1 << 19


def even(count: int, work: int) -> list[int]:
    """Bounds of equal shares for the threads; one share where there is little to do."""
    shares = shares_for(work, count)
    return [count * share // shares for share in range(shares + 1)]


def shares_for(work: int, count: int) -> int:
    """Into how many shares work on so many elements is worth cutting; never more than `count`."""
    return max(1, min(threads(), count, work // SHARE))


def shared(work: Callable[[int, int], None], bounds: Sequence[int]) -> None:
    """Do the shares of the work side by side, the last of them on this thread."""
    pieces = [(a, b) for a, b in pairwise(bounds) if a < b]
    if not pieces:
        return
    others = [_pool(threads()).submit(work, *piece) for piece in pieces[:-1]]
    try:
        work(*pieces[-1])
    finally:
        wait(others)
    for other in others:
        other.result()


def threads() -> int:
    """How many threads share the work: as many as torch uses."""
    return int(torch.get_num_threads())


@lru_cache(maxsize=1)
def _pool(size: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, size - 1), thread_name_prefix="slipstream-kernels")


if hasattr(os, "register_at_fork"):  # a forked child has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)
