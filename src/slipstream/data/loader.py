"""Returns the batches of a part in order, and reads some batches ahead of the one in use.

Reader threads fill buffers. The consumer's thread takes cuts from the order and puts reading tasks
into a queue, so which examples a batch has is decided by the order alone.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from queue import SimpleQueue
from typing import Any

import torch

from slipstream.data.batch import Batch, BatchReader, OnRead
from slipstream.data.dataset import Part
from slipstream.errors import ConfigError, SlipstreamError
from slipstream.order import Cut, InputOrder, Order, check_share


class Loader:
    """An iterator over the batches of a part, in a given order.

    The tensors of a returned batch are not written again.

    Args:
        part: The examples.
        batch_size: Examples of a batch, on each rank.
        order: The order of examples; by default as they are, once.
        rank: The share of each step that this process takes.
        world_size: How many processes share each step.
        ahead: Batches that are read in advance.
        threads: Reader threads.
        pin_memory: Put batches in page-locked memory, for copies to a GPU beside its work.
        at_once: The most batches that are read at a time; None chooses.
        on_read: Called with every block of batches that was read; its result is in
            `batch.read_block.seen`.
        wait: Called where the order has not decided the next batch yet, and returns when another
            thread has. Batches are then read only in full blocks. None raises an error instead.

    Example:
        >>> loader = Loader(dataset.train, 512)
        >>> for batch in loader:
        ...     print(batch.n_valid, [coming.n_valid for coming in loader.peek(2)])
        512 [512, 512]
        512 [512, 164]
        512 [164]
        164 []
    """

    def __init__(
        self,
        part: Part,
        batch_size: int,
        *,
        order: Order | None = None,
        rank: int = 0,
        world_size: int = 1,
        ahead: int = 1,
        threads: int = 1,
        pin_memory: bool = False,
        at_once: int | None = None,
        on_read: OnRead | None = None,
        wait: Callable[[], None] | None = None,
    ) -> None:
        self.part = part
        self.batch_size = batch_size
        self.order: Order = InputOrder(len(part)) if order is None else order
        if self.order.examples != len(part):
            raise ConfigError(
                f"The order is for {self.order.examples} examples, but part {part.name!r} has "
                f"{len(part)}."
            )
        check_share(batch_size, rank, world_size)
        if pin_memory:
            _check_page_locked_memory()
        if ahead < 0 or threads < 1:
            raise ConfigError(
                f"ahead is {ahead} and threads {threads}; they must be at least 0 and 1."
            )
        self.rank, self.world_size = rank, world_size
        self.ahead, self._wait = ahead, wait
        self._reader = BatchReader(part, batch_size, pin_memory, at_once, on_read)
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=_work, args=(self._tasks,), name=f"loader-{i}", daemon=True)
            for i in range(threads)
        ]
        for thread in self._threads:
            thread.start()
        self._end = weakref.finalize(self, _end, self._tasks, threads)
        self._position = 0
        self._exhausted = False
        self._seek(0)

    @property
    def position(self) -> int:
        """The first position in the order that no returned batch has consumed."""
        return self._position

    def reserve(self, reads: int) -> None:
        """Allocate page-locked memory, if it is used, for so many blocks of batches.

        Allocating a block takes as long as many steps of a GPU.
        """
        self._reader.reserve(reads)

    def state_dict(self) -> dict[str, Any]:
        """The position and the order; batches that were read ahead are not part of the state."""
        return {"position": self._position, "order": self.order.arguments()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue at the position of another loader with the same order.

        The batch size, the world size and the number of epochs may differ. A state with a position
        and no order is accepted too.
        """
        position = state["position"]
        here = self.order.arguments()
        for name, value in state.get("order", {}).items():
            if name != "epochs" and here.get(name) != value:
                raise ConfigError(
                    f"The state is of an order with {name} {value}, but this loader's order has "
                    f"{name} {here.get(name)}: position {position} would be another example."
                )
        if not 0 <= position <= len(self.order):
            raise ConfigError(
                f"Position {position} does not lie within this order of {len(self.order)} examples."
            )
        self._seek(position)

    def peek(self, count: int) -> list[Batch]:
        """The next `count` batches, without consuming them; fewer near the end."""
        if not self._end.alive:
            raise ConfigError("This loader is closed. Make another one.")
        try:
            while len(self._ready) < count and self._read_more(count - len(self._ready)):
                task = self._reading.popleft()
                self._under_way -= task.count
                self._ready.extend(task.result())
        except BaseException:  # a caller that continues must not miss an example
            self._seek(self._position)
            raise
        return list(islice(self._ready, count))

    def __iter__(self) -> Iterator[Batch]:
        if self._exhausted:
            raise ConfigError(
                "This loader has returned all of its batches. For several passes give its order "
                'epochs=..., or start again with loader.load_state_dict({"position": 0}).'
            )
        return self

    def __next__(self) -> Batch:
        while not (self._ready and self._end.alive) and not self.peek(1):
            if self._undecided and self._wait is not None:
                self._wait()
                continue
            if self._undecided:
                raise SlipstreamError(
                    f"The batch at position {self._position} is not decided yet: the order waits "
                    "for a loss. Call its report_loss, or read fewer batches ahead."
                )
            self._exhausted = True
            raise StopIteration
        try:
            self._read_more(self.ahead + 1 - len(self._ready))
        except BaseException:
            self._seek(self._position)
            raise
        batch = self._ready.popleft()
        self._position = batch.next_position
        return batch

    def close(self) -> None:
        """End the threads. This also happens when the loader is no longer used."""
        self._end()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _seek(self, position: int) -> None:
        self._position = position
        self._exhausted = False
        self._ready: deque[Batch] = deque()
        self._reading: deque[_Task] = deque()
        self._under_way = 0  # batches of these
        self._undecided = False
        self._gathered: list[Cut] = []  # decided, but fewer than a block
        self._cuts = self.order.cuts(
            position, self.batch_size, rank=self.rank, world_size=self.world_size
        )

    def _read_more(self, batches: int) -> bool:
        """Queue reads for at least so many batches; return whether any read is under way."""
        while self._under_way < batches:
            cuts = self._next_block()
            if not cuts:
                break
            self._under_way += len(cuts)
            self._reading.append(_Task(self._reader, cuts))
            self._tasks.put(self._reading[-1])
        return bool(self._reading)

    def _next_block(self) -> list[Cut]:
        """The cuts of the next block to read: all are decided, and only the last may be short."""
        self._undecided = False
        for cut in self._cuts:
            if cut is None:
                self._undecided = True
                if self._wait is not None:
                    return []
                break
            self._gathered.append(cut)
            full = len(self._gathered) == self._reader.at_once
            if full or len(cut.example_numbers) < self.batch_size:
                break
        cuts, self._gathered = self._gathered, []
        return cuts


class _Task:
    """A block of batches to read: by a reader thread, or by the consumer if it needs it first.

    It uses plain locks, because the futures of a thread pool cost as much as reading a batch.
    """

    def __init__(self, reader: BatchReader, cuts: list[Cut]) -> None:
        self._reader, self._cuts = reader, cuts
        self.count = len(cuts)
        self._begun, self._done = threading.Lock(), threading.Lock()
        self._done.acquire()
        self._batches: list[Batch] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        """Read the batches, unless another thread has begun to."""
        if not self._begun.acquire(blocking=False):
            return
        try:
            self._batches = self._reader.read(self._cuts)
        except BaseException as error:  # it is raised again where the batches are waited for
            self._error = error
        self._done.release()

    def result(self) -> list[Batch]:
        """Return the batches, once: a task that is still in the queue keeps none of them."""
        self.run()
        with self._done:
            if self._error is not None:
                raise self._error
            batches, self._batches = self._batches, []
            return batches


def _work(tasks: SimpleQueue[_Task | None]) -> None:
    while (task := tasks.get()) is not None:
        task.run()
        del task  # do not keep its batches until the next one comes


def _end(tasks: SimpleQueue[_Task | None], threads: int) -> None:
    for _ in range(threads):
        tasks.put(None)


def _check_page_locked_memory() -> None:
    try:
        torch.empty(1, pin_memory=True)
    except RuntimeError as error:
        raise ConfigError("pin_memory is for copies to a GPU, and there is none here.") from error
