"""Rows between the slow store and blocks: one compiled call each, without the interpreter lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from slipstream.compiled import compiled
from slipstream.data.inputs import Array
from slipstream.near import AHEAD, ask_for

_SHARE = 40_000  # rows: handing fewer to another thread costs, by reckoning, what it saves
_THREADS = max(1, min(3, (os.cpu_count() or 1) // 4))


@compiled
def _gather(source: Array, rows: Array, out: Array) -> None:
    width, count = source.shape[1], len(rows)
    for k in range(-AHEAD, count):
        if k + AHEAD < count:
            ask_for(source, rows[k + AHEAD], 0)
            ask_for(source, rows[k + AHEAD], width - 1)
        if k >= 0:
            row = rows[k]
            for d in range(width):
                out[k, d] = source[row, d]


@compiled
def _scatter(source: Array, rows: Array, out: Array) -> None:
    width, count = source.shape[1], len(rows)
    for k in range(-AHEAD, count):
        if k + AHEAD < count:
            ask_for(out, rows[k + AHEAD], 0)
            ask_for(out, rows[k + AHEAD], width - 1)
        if k >= 0:
            row = rows[k]
            for d in range(width):
                out[row, d] = source[k, d]


@compiled
def note(row_of: Array, fill_rows: Array, fill_slots: Array, evict_slots: Array) -> None:
    """Note which rows are in which slots after a step."""
    for k in range(len(fill_rows)):
        row_of[fill_slots[k]] = fill_rows[k]
    for k in range(len(evict_slots)):
        row_of[evict_slots[k]] = -1


@compiled
def note_pages(
    row_of: Array,
    fill_rows: Array,
    fill_slots: Array,
    fills: Array,
    evict_slots: Array,
    evicts: Array,
) -> None:
    """Note which rows are in which slots after several steps; those of each are within bounds."""
    for page in range(len(fills) - 1):
        for k in range(fills[page], fills[page + 1]):
            row_of[fill_slots[k]] = fill_rows[k]
        for k in range(evicts[page], evicts[page + 1]):
            row_of[evict_slots[k]] = -1


@compiled
def _gather_pages(source: Array, rows: Array, bounds: Array, words: Array, offset: int) -> None:
    width = source.shape[1]
    for page in range(len(bounds) - 1):
        mine = rows[bounds[page] : bounds[page + 1]]
        end = offset + len(mine) * width
        _gather(source, mine, words[page, offset:end].reshape(len(mine), width))


@compiled
def _scatter_pages(words: Array, offset: int, rows: Array, bounds: Array, out: Array) -> None:
    width = out.shape[1]
    for page in range(len(bounds) - 1):
        mine = rows[bounds[page] : bounds[page + 1]]
        end = offset + len(mine) * width
        _scatter(words[page, offset:end].reshape(len(mine), width), mine, out)


class Pool:
    """Copies rows, many of them with the help of other threads: each waits for memory.

    Args:
        name: Of the threads.
    """

    def __init__(self, name: str) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"slipstream-{name}")

    def gather(self, source: Array, rows: Array, out: Array) -> None:
        """Copy rows of the source to the first rows of `out`."""
        worth = len(rows) // _SHARE
        self._shared(lambda a, b: _gather(source, rows[a:b], out[a:b]), len(rows), worth)

    def scatter(self, source: Array, rows: Array, out: Array) -> None:
        """Copy the first rows of the source to rows of `out`, each to another."""
        worth = len(rows) // _SHARE
        self._shared(lambda a, b: _scatter(source[a:b], rows[a:b], out), len(rows), worth)

    def gather_pages(
        self, source: Array, rows: Array, bounds: Array, words: Array, offset: int
    ) -> None:
        """Copy rows of the source to where they are staged in several pages.

        Args:
            source: All rows.
            rows: Which.
            bounds: Where those of each page begin, and the end of the last.
            words: The pages.
            offset: Where in a page.
        """
        self._shared_pages(
            lambda a, b: _gather_pages(source, rows, bounds[a : b + 1], words[a:b], offset), bounds
        )

    def scatter_pages(
        self, words: Array, offset: int, rows: Array, bounds: Array, out: Array
    ) -> None:
        """Copy what is staged in several pages to rows of `out`, each to another."""
        self._shared_pages(
            lambda a, b: _scatter_pages(words[a:b], offset, rows, bounds[a : b + 1], out), bounds
        )

    def _shared_pages(self, work: Callable[[int, int], object], bounds: Array) -> None:
        pages, rows = len(bounds) - 1, bounds[-1] - bounds[0]
        self._shared(work, pages, worth=min(pages, int(rows // _SHARE)))

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _shared(self, work: Callable[[int, int], object], count: int, worth: int) -> None:
        """Do work from 0 to `count`, by as many threads as it is worth, with this one."""
        shares = max(1, min(1 + _THREADS, worth))
        ends = [count * share // shares for share in range(1, shares + 1)]
        others = [self._threads.submit(work, *some) for some in pairwise(ends)]
        work(0, ends[0])
        for other in others:
            other.result()
