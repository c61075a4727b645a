"""Copies that go on beside the computation: a lane is a CUDA stream, and nothing on the CPU."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


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

    Args:
        device: The device.
        current: The lane that the computation is in, instead of one beside it.
    """

    def __init__(self, device: torch.device, *, current: bool = False) -> None:
        self._device = device
        self._is_current = current
        self.stream: Any = None
        if device.type == "cuda":
            make = torch.cuda.current_stream if current else torch.cuda.Stream
            self.stream = make(device)

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

    def mark(self) -> Mark:
        """The point that the work asked for so far ends at."""
        if self.stream is None:
            return Mark()
        event = torch.cuda.Event()
        event.record(self.stream)
        return Mark(event)
