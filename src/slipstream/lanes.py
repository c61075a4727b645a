"""Work that goes on beside the computation: a lane is a CUDA stream, and nothing on the CPU."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar
from weakref import WeakSet

import torch

_STREAMS = 32  # that PyTorch has in all, and hands out in turn


class Mark:
    """A point in the work of a lane, that others can wait for."""

    def __init__(self, event: Any = None) -> None:
        self._event = event

    def wait(self) -> None:
        """Have this thread wait until the work up to the mark is done."""
        if self._event is not None:
            self._event.synchronize()

    def before_more_in(self, lane: Lane) -> None:
        """Have a lane wait for it, not this thread."""
        if self._event is not None:
            lane.stream.wait_event(self._event)


class Lane:
    """An order in which work on a device is done, beside that of other lanes.

    Each has a stream of its own, as long as there are enough: what another thread asks of a stream
    while it is recorded would be recorded, too.

    Args:
        device: The device.
        current: The lane that the computation is in, instead of one beside it.
    """

    _beside: ClassVar[WeakSet[Lane]] = WeakSet()
    _lasting: ClassVar[dict[tuple[str, int], Lane]] = {}
    _making = threading.RLock()

    def __init__(self, device: torch.device, *, current: bool = False) -> None:
        self._device = device
        self._is_current = current
        self.stream: Any = None
        if device.type != "cuda":
            return
        if current:
            self.stream = torch.cuda.current_stream(device)
            return
        with Lane._making:
            used = {one.stream for one in Lane._beside}
            for _ in range(_STREAMS):
                self.stream = torch.cuda.Stream(device)
                if self.stream not in used:
                    break
            Lane._beside.add(self)

    @staticmethod
    def for_recording(device: torch.device) -> Lane:
        """The lane that everything is recorded in."""
        return Lane._one("recording", device)

    @staticmethod
    def for_gradients(device: torch.device) -> Lane:
        """The lane of gradients that no other computation waits for."""
        return Lane._one("gradients", device)

    @staticmethod
    def _one(what: str, device: torch.device) -> Lane:
        """Always the same one: libraries keep memory for each stream they were used in."""
        if device.type != "cuda":
            return Lane(device)
        number = torch.cuda.current_device() if device.index is None else device.index
        with Lane._making:
            if (what, number) not in Lane._lasting:
                Lane._lasting[what, number] = Lane(device)
            return Lane._lasting[what, number]

    def used(self) -> AbstractContextManager[Any]:
        """What is asked of the device in this context is done in the lane."""
        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)

    def after(self, other: Lane) -> None:
        """Have what comes in this lane wait for what the current step asked of another so far.

        Of the lane of the computation it is the part that is being recorded, if there is one.
        """
        if self.stream is not None:
            mine, theirs = self._current(), other._current()
            mine.wait_stream(theirs)

    def _current(self) -> Any:
        return torch.cuda.current_stream(self._device) if self._is_current else self.stream

    @contextmanager
    def recording(self, graph: Any, pool: Any) -> Iterator[None]:
        """Record what is asked of the device in this context, instead of doing it.

        Args:
            graph: What to record it in.
            pool: The memory for it.
        """
        before = None if self.stream is None else torch.cuda.current_stream(self._device)
        try:
            # Other threads go on copying meanwhile.
            with torch.cuda.graph(
                graph, pool=pool, stream=self.stream, capture_error_mode="thread_local"
            ):
                yield
        finally:
            if before is not None:  # a recording that fails leaves its own stream behind
                torch.cuda.set_stream(before)

    def mark(self) -> Mark:
        """The point that the work asked for so far ends at."""
        if self.stream is None:
            return Mark()
        event = torch.cuda.Event()
        event.record(self.stream)
        return Mark(event)
