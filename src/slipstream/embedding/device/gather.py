"""Rows between the slow store and blocks, by several threads: each waits for memory, not for work.

Compiled, without the interpreter lock.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from slipstream.compiled import compiled
from slipstream.data.inputs import Array

THREADS = 4
_PIECE = 2048


@compiled
def _gather(source: Array, rows: Array, out: Array) -> None:
    width = source.shape[1]
    for k in range(len(rows)):
        row = rows[k]
        for d in range(width):
            out[k, d] = source[row, d]


@compiled
def _scatter(source: Array, rows: Array, out: Array) -> None:
    width = source.shape[1]
    for k in range(len(rows)):
        row = rows[k]
        for d in range(width):
            out[row, d] = source[k, d]


class Pool:
    """Threads that copy rows.

    Args:
        name: Of the threads.
        threads: How many, beside the one that asks.
    """

    def __init__(self, name: str, threads: int = THREADS) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=f"slipstream-{name}")

    def gather(self, source: Array, rows: Array, out: Array) -> None:
        """Copy rows of the source to the first rows of `out`."""
        self._shared(lambda a, b: _gather(source, rows[a:b], out[a:b]), len(rows))

    def scatter(self, source: Array, rows: Array, out: Array) -> None:
        """Copy the first rows of the source to rows of `out`, each to another."""
        self._shared(lambda a, b: _scatter(source[a:b], rows[a:b], out), len(rows))

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _shared(self, work: Callable[[int, int], None], count: int) -> None:
        bounds = range(0, count, max(_PIECE, -(-count // (THREADS + 1))))
        pieces = [(begin, min(begin + bounds.step, count)) for begin in bounds]
        others = [self._threads.submit(work, *piece) for piece in pieces[1:]]
        if pieces:
            work(*pieces[0])
        for other in others:
            other.result()
