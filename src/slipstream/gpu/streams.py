"""Work beside the computation: a CUDA stream on a GPU, and nothing on the CPU."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar
from weakref import WeakSet

import torch

_CUDA_STREAMS = 32  # that PyTorch has in all, and hands out in turn


class StreamEvent:
    """A point in the work of a stream, which others can wait for: a CUDA event."""

    def __init__(self, event: Any = None) -> None:
        self._event = event

    def wait(self) -> None:
        """Have this thread wait until the work up to the mark is done."""
        if self._event is not None:
            self._event.synchronize()

    def before_more_in(self, stream: Stream) -> None:
        """Have a stream wait for it, not this thread."""
        if self._event is not None:
            stream.cuda.wait_event(self._event)


class Stream:
    """A CUDA stream: work on a device in order, beside that of other streams.

    Each has a CUDA stream of its own, as long as there are enough: work that another thread puts
    into a stream while it is recorded would be recorded, too. With `current` it is the stream of
    the computation, instead of one beside it.
    """

    _beside: ClassVar[WeakSet[Stream]] = WeakSet()
    _lasting: ClassVar[dict[tuple[str, int], Stream]] = {}
    _making = threading.RLock()

    def __init__(self, device: torch.device, *, current: bool = False) -> None:
        self._device = device
        self._is_current = current
        self.cuda: Any = None
        if device.type != "cuda":
            return
        if current:
            self.cuda = torch.cuda.current_stream(device)
            return
        with Stream._making:
            used = {stream.cuda for stream in Stream._beside}
            for _ in range(_CUDA_STREAMS):
                self.cuda = torch.cuda.Stream(device)
                if self.cuda not in used:
                    break
            Stream._beside.add(self)

    @staticmethod
    def for_recording(device: torch.device) -> Stream:
        """The stream in which everything is recorded."""
        return Stream._lasting_stream("recording", device)

    @staticmethod
    def for_gradients(device: torch.device) -> Stream:
        """The stream of gradients that no other computation waits for."""
        return Stream._lasting_stream("gradients", device)

    @staticmethod
    def _lasting_stream(name: str, device: torch.device) -> Stream:
        """Always the same one: libraries hold memory for each stream that they used."""
        if device.type != "cuda":
            return Stream(device)
        number = torch.cuda.current_device() if device.index is None else device.index
        with Stream._making:
            if (name, number) not in Stream._lasting:
                Stream._lasting[name, number] = Stream(device)
            return Stream._lasting[name, number]

    def used(self) -> AbstractContextManager[Any]:
        """A context in which work for the device goes into the stream."""
        return nullcontext() if self.cuda is None else torch.cuda.stream(self.cuda)

    def after(self, other: Stream) -> None:
        """Have later work of this stream wait for the work of the current step in another so far.

        For the stream of the computation that is the part that is being recorded, if there is one.
        """
        if self.cuda is not None:
            self._current().wait_stream(other._current())

    def _current(self) -> Any:
        return torch.cuda.current_stream(self._device) if self._is_current else self.cuda

    @contextmanager
    def recording(self, graph: Any, pool: Any) -> Iterator[None]:
        """A context in which work for the device is recorded in `graph`, in memory of `pool`."""
        before = None if self.cuda is None else torch.cuda.current_stream(self._device)
        try:
            # Other threads go on copying meanwhile.
            with torch.cuda.graph(
                graph, pool=pool, stream=self.cuda, capture_error_mode="thread_local"
            ):
                yield
        finally:
            if before is not None:  # a recording that fails does not restore the stream
                torch.cuda.set_stream(before)

    def mark(self) -> StreamEvent:
        """The point at which the work so far ends."""
        if self.cuda is None:
            return StreamEvent()
        event = torch.cuda.Event()
        event.record(self.cuda)
        return StreamEvent(event)
