"""Makes things in a thread of its own, a few ahead of who takes them."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_END = object()
_SWITCH = 300e-6  # a small part of the time of plans that travel together
_COLLECTIONS = 1000  # of younger garbage before one of all: minutes of steps
_inside = 0  # how often what is said of both holds now
_before: list[Any] = []  # what held before
_lock = threading.Lock()


class Ahead(Generic[T]):
    """What an iterator gives, made by a thread; what it raises is raised here in its turn.

    Args:
        things: The iterator; nobody else may ask it for anything.
        waiting: How many may wait to be taken.
        name: Of the thread.

    Example:
        >>> with Ahead(iter("abc"), 2) as letters:
        ...     list(letters)
        ['a', 'b', 'c']
    """

    def __init__(self, things: Iterator[T], waiting: int, name: str = "ahead") -> None:
        self._things = things
        self._made: SimpleQueue[tuple[object, BaseException | None]] = SimpleQueue()
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
        thing, error = self._made.get()
        self._wanted.put(True)
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
        self._wanted.put(False)
        self._thread.join()
        self._ended = True

    def _work(self) -> None:
        error: BaseException | None = None
        thing: object = None
        while thing is not _END and self._wanted.get():
            try:
                thing = next(self._things, _END)
            except BaseException as problem:
                thing, error = _END, problem
            self._made.put((thing, error))
        # Whatever it has open, other threads among it, ends with this thread.
        if isinstance(self._things, Generator):
            self._things.close()


@contextmanager
def little_interrupted() -> Iterator[None]:
    """Let threads wait for the interpreter as briefly as a GPU's steps ask for.

    A thread that comes back from compiled code waits for the interpreter lock as long as another
    may hold it: by default that is many steps of a GPU. Much less would be worse, since each change
    from one thread to another takes time, too. And a collection of all garbage, which looks at
    everything that libraries have made when they were imported, takes as long as hundreds of steps:
    it comes far more rarely than by default, while young garbage is collected as ever.
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
