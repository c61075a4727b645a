"""Rows between the slow store and blocks: one compiled call each, without the interpreter lock.

Other threads help with many rows, since each waits for memory. They stay in compiled code, and so
does the thread that wakes them: no wake-up needs the interpreter lock.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, cast

import numba
import numpy as np

from slipstream.arrays import Array
from slipstream.compiled import compiled
from slipstream.gpu.transfer.semaphores import AVAILABLE, await_, give, pointer, signals
from slipstream.prefetch import AHEAD, prefetch

SHARE = 2_000_000  # bytes: with fewer, another thread takes more from the others than it gives
_THREADS = max(1, min(7, (os.cpu_count() or 1) // 2 - 1)) if AVAILABLE else 0
_array = cast(Any, numba).carray
# A job is a row of numbers; arrays are in it by their addresses.
_KIND, _STORE, _ALL, _WIDTH, _ROWS, _BYTES, _BOUNDS, _PAGES, _STAGED, _STRIDE = range(10)
_GATHER, _SCATTER, _STOP = range(3)


@compiled
def _gather(source: Array, rows: Array, out: Array) -> None:
    width, count = source.shape[1], len(rows)
    for k in range(-AHEAD, count):
        if k + AHEAD < count:
            prefetch(source, rows[k + AHEAD], 0)
            prefetch(source, rows[k + AHEAD], width - 1)
        if k >= 0:
            row = rows[k]
            for d in range(width):
                out[k, d] = source[row, d]


@compiled
def _scatter(source: Array, rows: Array, out: Array) -> None:
    width, count = source.shape[1], len(rows)
    for k in range(-AHEAD, count):
        if k + AHEAD < count:
            prefetch(out, rows[k + AHEAD], 0)
            prefetch(out, rows[k + AHEAD], width - 1)
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
    row_of: Array, fill_rows: Array, fill_slots: Array, fills: Array, evict_slots: Array,
    evicts: Array,
) -> None:  # fmt: skip
    """Note which rows are in which slots after several steps; those of each are within bounds."""
    for page in range(len(fills) - 1):
        for k in range(fills[page], fills[page + 1]):
            row_of[fill_slots[k]] = fill_rows[k]
        for k in range(evicts[page], evicts[page + 1]):
            row_of[evict_slots[k]] = -1


@compiled
def find(row_of: Array, first: int, rows: Array, bits: Array, slots: Array) -> int:
    """Find the slots, from slot `first` on, that hold some rows; returns how many there are.

    `row_of` is the row in each slot, or -1. `bits` has a bit for each row there is, none of them
    set before or after. `slots`, the output, has room for as many as there are rows.
    """
    count = wanted = 0
    for row in rows:
        bit = np.uint8(1) << np.uint8(row & 7)
        wanted += bits[row >> 3] & bit == 0
        bits[row >> 3] |= bit
    for slot in range(first, len(row_of)):
        if count == wanted:
            break
        row = row_of[slot]
        if row >= 0 and bits[row >> 3] >> np.uint8(row & 7) & 1:
            slots[count] = slot
            count += 1
    for row in rows:
        bits[row >> 3] = 0
    return count


@compiled
def _do(job: Array) -> None:
    """Copy the rows of the pages of a job."""
    width = job[_WIDTH]
    store = _array(pointer(job[_STORE]), (job[_ALL], width), np.int32)
    bounds = _array(pointer(job[_BOUNDS]), (job[_PAGES] + 1,), np.int64)
    for page in range(job[_PAGES]):
        count = bounds[page + 1] - bounds[page]
        staged = _array(pointer(job[_STAGED] + 4 * page * job[_STRIDE]), (count, width), np.int32)
        at = job[_ROWS] + bounds[page] * job[_BYTES]
        if job[_BYTES] == 4:
            _copy(job[_KIND], store, _array(pointer(at), (count,), np.int32), staged)
        else:
            _copy(job[_KIND], store, _array(pointer(at), (count,), np.int64), staged)


@compiled
def _copy(kind: int, store: Array, rows: Array, staged: Array) -> None:
    if kind == _GATHER:
        _gather(store, rows, staged)
    else:
        _scatter(staged, rows, store)


@compiled
def _help(jobs: Array, signals: Array, number: int) -> None:
    """Run the jobs of thread `number` until the job is to stop.

    The first signals start the threads; each thread gives the last one when it has finished a job.
    """
    while True:
        while await_(signals[number].ctypes.data) != 0:
            pass
        if jobs[number, _KIND] == _STOP:
            return
        _do(jobs[number])
        give(signals[-1].ctypes.data)


@compiled
def _shared(
    jobs: Array, signals: Array, ends: Array, kind: int, store: Array, rows: Array, bounds: Array,
    staged: int, stride: int,
) -> None:  # fmt: skip
    """Copy the rows of pages, each share of them by another thread, the last by this one.

    `jobs` has a row for each helper, and the last for this thread; `signals` are as in `_help`.
    `ends` is where in the pages each share begins, and where the last ends. `kind` is gather or
    scatter. `rows` are those of all pages, one behind the other; `bounds` is where those of each
    page begin, and where the last end. `staged` is the address at which those of the first page are
    staged, and `stride` how far away those of the next page are, in words; 0 where they lie behind
    them.
    """
    width, shares = store.shape[1], len(ends) - 1
    for share in range(shares):
        job = jobs[share if share < shares - 1 else len(jobs) - 1]
        first = ends[share]
        job[_KIND], job[_STORE], job[_ALL], job[_WIDTH] = kind, store.ctypes.data, len(store), width
        job[_ROWS], job[_BYTES] = rows.ctypes.data, rows.itemsize
        job[_BOUNDS] = bounds[first:].ctypes.data
        job[_PAGES] = ends[share + 1] - first
        away = first * stride if stride else (bounds[first] - bounds[0]) * width
        job[_STAGED], job[_STRIDE] = staged + 4 * away, stride
        if share < shares - 1:
            give(signals[share].ctypes.data)
    _do(jobs[len(jobs) - 1])
    for _ in range(shares - 1):
        while await_(signals[-1].ctypes.data) != 0:
            pass


@compiled
def _stop(jobs: Array, signals: Array) -> None:
    """Have every thread end."""
    for number in range(len(jobs) - 1):
        jobs[number, _KIND] = _STOP
        give(signals[number].ctypes.data)


class Pool:
    """Copies rows, many of them with the help of other threads; None chooses how many threads."""

    def __init__(self, name: str, threads: int | None = None) -> None:
        threads = _THREADS if threads is None else threads
        self._jobs = np.zeros((threads + 1, _STRIDE + 1), dtype=np.int64)
        self._signals = signals(threads + 1)
        self._one_at_a_time = threading.Lock()
        _stop(self._jobs[:1], self._signals)  # compiled now, not when the pool is forgotten
        # What the threads look at lives as long as they do, and they end with the pool.
        self._end = weakref.finalize(self, _stop, self._jobs, self._signals)
        self._end.atexit = False
        self._threads = [
            threading.Thread(
                target=_help,
                args=(self._jobs, self._signals, number),
                name=f"slipstream-{name}_{number}",
                daemon=True,
            )
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def gather(self, source: Array, rows: Array, out: Array) -> None:
        """Copy rows of the source to the first rows of `out`."""
        self._flat(_GATHER, source, rows, out)

    def scatter(self, source: Array, rows: Array, out: Array) -> None:
        """Copy the first rows of the source to rows of `out`, each to another."""
        self._flat(_SCATTER, out, rows, source)

    def gather_pages(
        self, source: Array, rows: Array, bounds: Array, words: Array, offset: int
    ) -> None:
        """Copy rows of the source to several pages of `words`, at `offset` in each.

        `bounds` is where the rows of each page begin, and where the last end.
        """
        self._paged(_GATHER, source, rows, bounds, words, offset)

    def scatter_pages(
        self, words: Array, offset: int, rows: Array, bounds: Array, out: Array
    ) -> None:
        """Copy the rows that are staged in several pages to rows of `out`, each to another."""
        self._paged(_SCATTER, out, rows, bounds, words, offset)

    def close(self) -> None:
        """End the threads. This also happens when the pool is no longer used."""
        with self._one_at_a_time:
            self._end()
            for thread in self._threads:
                thread.join()
            self._threads = []

    def _flat(self, kind: int, store: Array, rows: Array, staged: Array) -> None:
        """Copy between rows of a store and rows that lie one behind the other."""
        fits = len(staged) >= len(rows) and staged.shape[1] == store.shape[1]
        _check(staged.flags.c_contiguous and fits, staged)
        with self._one_at_a_time:
            bounds = _cut(len(rows), self._shares(len(rows), store))
            ends = np.arange(len(bounds))
            self._copied(kind, store, rows, bounds, ends, staged.ctypes.data, 0)

    def _paged(
        self, kind: int, store: Array, rows: Array, bounds: Array, words: Array, offset: int
    ) -> None:
        """Copy between rows of a store and pages."""
        pages, staged = len(bounds) - 1, words.ctypes.data + 4 * offset
        if not pages:
            return
        most = offset + int(np.diff(bounds).max()) * store.shape[1]
        fits = len(words) >= pages and words.shape[1] >= most and len(rows) >= bounds[-1]
        _check(words.strides[1] == 4 and fits, words)
        with self._one_at_a_time:
            worth = self._shares(int(bounds[-1] - bounds[0]), store)
            ends = _cut(pages, min(pages, worth))
            self._copied(kind, store, rows, bounds, ends, staged, words.strides[0] // 4)

    def _shares(self, rows: int, store: Array) -> int:
        """How many threads so many rows of a store are worth."""
        return max(1, min(1 + len(self._threads), rows * store.strides[0] // SHARE))

    def _copied(
        self, kind: int, store: Array, rows: Array, bounds: Array, ends: Array, staged: int,
        stride: int,
    ) -> None:  # fmt: skip
        _check(store.flags.c_contiguous, store)
        if not (rows.flags.c_contiguous and rows.dtype.kind == "i" and rows.itemsize in (4, 8)):
            raise ValueError(f"Numbers of rows must be 32 or 64 bits, side by side: {rows.dtype}.")
        bounds = np.ascontiguousarray(bounds, dtype=np.int64)
        _shared(self._jobs, self._signals, ends, kind, store, rows, bounds, staged, stride)


def _check(right: bool, words: Array) -> None:
    """Raise an error unless words lie as compiled code expects them at their address."""
    if not right or words.dtype != np.int32:
        raise ValueError(
            f"Words of rows are found by their addresses: they must be int32, side by side, and "
            f"enough for all rows. These are {words.dtype} {list(words.shape)}, "
            f"{list(words.strides)} bytes apart."
        )


def _cut(count: int, shares: int) -> Array:
    """Where each of so many shares begins, and the end of the last.

    Example:
        >>> _cut(10, 4).tolist()
        [0, 2, 5, 7, 10]
    """
    return np.arange(shares + 1) * count // shares
