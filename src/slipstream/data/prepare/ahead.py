"""Runs a function over things in threads, a few ahead of who takes the results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

THREADS = 2
S = TypeVar("S")
T = TypeVar("T")


def ahead(function: Callable[[S], T], things: Iterable[S]) -> Iterator[tuple[S, T]]:
    """Each thing with what the function gives for it, in order; at most three wait.

    An error in making the things comes only after what was made before it.

    Example:
        >>> list(ahead(abs, [-1, 2]))
        [(-1, 1), (2, 2)]
    """
    waiting: deque[tuple[S, Future[T]]] = deque()
    failed: Exception | None = None
    with ThreadPoolExecutor(THREADS) as pool:
        try:
            source = iter(things)
            while True:
                try:
                    thing = next(source)
                except StopIteration:
                    break
                except Exception as error:
                    failed = error
                    break
                waiting.append((thing, pool.submit(function, thing)))
                if len(waiting) > THREADS:
                    first, future = waiting.popleft()
                    yield first, future.result()
            while waiting:
                first, future = waiting.popleft()
                yield first, future.result()
            if failed is not None:
                raise failed
        finally:
            for _, future in waiting:
                future.cancel()
