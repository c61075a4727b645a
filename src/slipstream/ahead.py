"""Makes things in a thread of its own, a few ahead of who takes them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")
_END = object()
_SWITCH = 300e-6  # a small part of the time of plans that travel together


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
def often_switched() -> Iterator[None]:
    """Let threads of Python wait for each other as briefly as a GPU's steps ask for.

    A thread that comes back from compiled code waits for the interpreter lock as long as another
    may hold it: by default that is many steps of a GPU. Much less would be worse, since each change
    from one thread to another takes time, too.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
