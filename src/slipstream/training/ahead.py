"""Makes things in a thread of its own, a few ahead of who takes them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import Queue
from typing import Generic, TypeVar

T = TypeVar("T")
_END = object()


class Ahead(Generic[T]):
    """What an iterator gives, made by a thread; what it raises is raised here in its turn.

    Args:
        things: The iterator; nobody else may ask it for anything.
        waiting: How many may wait to be taken.

    Example:
        >>> with Ahead(iter("abc"), 2) as letters:
        ...     list(letters)
        ['a', 'b', 'c']
    """

    def __init__(self, things: Iterator[T], waiting: int) -> None:
        self._things = things
        self._made: Queue[tuple[object, BaseException | None]] = Queue(waiting)
        self._stop = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="slipstream-ahead", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._ended:
            raise StopIteration
        thing, error = self._made.get()
        if error is not None:
            self._ended = True
            raise error
        if thing is _END:
            self._ended = True
            raise StopIteration
        return thing  # type: ignore[return-value]

    def __enter__(self) -> Ahead[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the thread; what was made and not taken is given up."""
        self._stop.set()
        while self._thread.is_alive():
            while not self._made.empty():
                self._made.get()
            self._thread.join(0.01)
        self._ended = True

    def _work(self) -> None:
        error: BaseException | None = None
        try:
            for thing in self._things:
                self._made.put((thing, None))
                if self._stop.is_set():
                    return
        except BaseException as problem:
            error = problem
        self._made.put((_END, error))
