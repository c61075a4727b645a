"""Work in background threads, a few items ahead of the consumer."""

from __future__ import annotations

import gc
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

S = TypeVar("S")
T = TypeVar("T")
_END = object()
_SWITCH = 300e-6  # seconds: a small part of the time of a group of plans
_COLLECTIONS = 1000  # of younger garbage before a full one: minutes of steps
_inside = 0  # how many threads are inside `low_latency_interpreter`
_before: list[Any] = []  # the settings before the first of them
_lock = threading.Lock()


class BackgroundIterator(Generic[T]):
    """Runs an iterator in a thread; an error of the iterator is raised in its turn.

    Args:
        items: The iterator; nothing else may use it.
        waiting: The most items that are ready and not consumed.
        name: The name of the thread.

    Example:
        >>> with BackgroundIterator(iter("abc"), 2) as letters:
        ...     list(letters)
        ['a', 'b', 'c']
    """

    def __init__(self, items: Iterator[T], waiting: int, name: str = "ahead") -> None:
        self._items = items
        self._ready: SimpleQueue[tuple[object, BaseException | None]] = SimpleQueue()
        self._wanted: SimpleQueue[bool] = SimpleQueue()
        for _ in range(waiting):
            self._wanted.put(True)
        self._ended = False
        self._thread = threading.Thread(target=self._work, name=f"slipstream-{name}", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._ended:
            raise StopIteration
        item, error = self._ready.get()
        self._wanted.put(True)
        if error is not None:
            self._ended = True
            raise error
        if item is _END:
            self._ended = True
            raise StopIteration
        return item  # type: ignore[return-value]

    def __enter__(self) -> BackgroundIterator[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the thread and drop the items that are ready."""
        self._wanted.put(False)
        self._thread.join()
        self._ended = True

    def _work(self) -> None:
        error: BaseException | None = None
        item: object = None
        while item is not _END and self._wanted.get():
            try:
                item = next(self._items, _END)
            except BaseException as problem:
                item, error = _END, problem
            self._ready.put((item, error))
        # A generator's open resources, such as other threads, end with this thread.
        if isinstance(self._items, Generator):
            self._items.close()


def map_in_threads(
    function: Callable[[S], T], items: Iterable[S], threads: int = 2, waiting: int = 2
) -> Iterator[tuple[S, T]]:
    """Each item with the result of a function, in order, computed by a pool of threads.

    An error of `items` is raised after the results of the items before it.

    Args:
        function: Called with each item, in a thread.
        items: The items; they are produced in the consumer's thread.
        threads: The size of the pool.
        waiting: The most items that are not consumed.

    Example:
        >>> list(map_in_threads(abs, [-1, 2]))
        [(-1, 1), (2, 2)]
    """
    pending: deque[tuple[S, Future[T]]] = deque()
    failure: Exception | None = None
    source = iter(items)
    with ThreadPoolExecutor(threads, "slipstream-map") as pool:
        try:
            while True:
                try:
                    item = next(source)
                except StopIteration:
                    break
                except Exception as error:
                    failure = error
                    break
                pending.append((item, pool.submit(function, item)))
                if len(pending) > waiting:
                    first, future = pending.popleft()
                    yield first, future.result()
            while pending:
                first, future = pending.popleft()
                yield first, future.result()
            if failure is not None:
                raise failure
        finally:
            for _, future in pending:
                future.cancel()


@contextmanager
def low_latency_interpreter() -> Iterator[None]:
    """Shorten the waits for the interpreter lock, and collect old garbage rarely.

    By default another thread may hold the lock for as long as many steps of a GPU. A much shorter
    interval would cost more in changes of threads. A full garbage collection takes as long as
    hundreds of steps, so it is far rarer here; young garbage is collected as usual.
    """
    global _inside
    with _lock:
        if not _inside:
            _before[:] = [sys.getswitchinterval(), gc.get_threshold()]
            sys.setswitchinterval(_SWITCH)
            young, older, all_of_it = _before[1]
            gc.set_threshold(young, older, max(all_of_it, _COLLECTIONS))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                sys.setswitchinterval(_before[0])
                gc.set_threshold(*_before[1])
