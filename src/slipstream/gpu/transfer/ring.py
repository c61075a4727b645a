"""Pages of memory in pairs, one on the host and one on the device, used in turn.

They stay where they are, so that a recorded step finds them by their number.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from slipstream.arrays import Array
from slipstream.errors import SlipstreamError
from slipstream.gpu.streams import Stream, StreamEvent
from slipstream.gpu.transfer.sections import Sections

NOTHING = Sections({})
"""No sections at all."""


@dataclass
class _Use:
    """A use of `count` pages from page `first` on; it has no reference to the ring.

    `free` is when the last work on them is done; None while they are in use.
    """

    first: int
    count: int
    free: StreamEvent | None = None


@dataclass(frozen=True)
class Pages:
    """Some pages of a ring, one behind the other."""

    ring: Ring
    use: _Use

    @property
    def first(self) -> int:
        """The number of the first page."""
        return self.use.first

    @property
    def count(self) -> int:
        """How many there are."""
        return self.use.count

    @property
    def host(self) -> Tensor:
        """Their bytes on the host."""
        return self.ring.host[self.first : self.first + self.count]

    @property
    def device(self) -> Tensor:
        """Their bytes on the device."""
        return self.ring.device[self.first : self.first + self.count]

    def inputs(self, name: str, some: slice) -> Tensor:
        """A section of the inputs of some of them, on the device."""
        begin, end, _ = some.indices(self.count)
        return self.ring.inputs[name][self.first + begin : self.first + end]

    @cached_property
    def stacked(self) -> dict[str, Array]:
        """The sections of all of them, on the host, `[pages, ...]` each."""
        some = slice(self.first, self.first + self.count)
        return {name: array[some] for name, array in self.ring.stacked.items()}

    @property
    def words(self) -> Array:
        """Their bytes on the host, four at a time."""
        return self.ring.words[self.first : self.first + self.count]

    @property
    def arrays(self) -> list[dict[str, Array]]:
        """The arrays in each of them, on the host."""
        return self.ring.arrays[self.first : self.first + self.count]


class Ring:
    """Hands out pages, each with one half on the host and one on the device.

    `of_inputs` are further sections of each page on the device alone, section by section: inputs
    that lie side by side on the host are copied there at once, for many pages.
    """

    def __init__(
        self, sections: Sections, pages: int, device: torch.device, of_inputs: Sections = NOTHING
    ) -> None:
        self.sections, self._of_inputs, self._pages = sections, of_inputs, pages
        shape = (pages, sections.bytes)
        self.host = torch.zeros(shape, dtype=torch.uint8, pin_memory=device.type == "cuda")
        size = pages * (sections.bytes + of_inputs.bytes)
        self.whole = torch.zeros(size, dtype=torch.uint8, device=device)
        self.device = self.whole[: self.host.numel()].view(shape)
        self.inputs = of_inputs.columns(self.whole[self.host.numel() :], pages)
        self.arrays = [sections.arrays(page) for page in self.host.numpy()]
        self.stacked = sections.stacked(self.host.numpy())
        self.words = self.host.numpy().view(np.int32)
        # Steps under way may still use the memory that is new here, and it is cleared after them:
        # a copy that goes on beside the computation must wait for both.
        self._ready = Stream(device, current=True).mark()
        self._next = 0
        self._uses: deque[_Use] = deque()
        self._changed = threading.Condition()
        self._stopped = False

    def take(self, count: int) -> Pages:
        """So many pages, once the last work on them is done."""
        begin, self._next = self._next, self._next + count
        if self._next > self._pages:  # what is left at the end is too little: it is passed over
            self._next = count
        first = self._next - count
        marks, self._ready = [self._ready], StreamEvent()  # once is enough
        with self._changed:
            while self._uses and _in_the_way(self._uses[0], begin, first, self._next):
                before = self._uses.popleft()
                while before.free is None and not self._stopped:
                    self._changed.wait()
                if before.free is None:
                    raise SlipstreamError("No more plans are taken: their transfers are closed.")
                marks.append(before.free)
            use = _Use(first, count)
            self._uses.append(use)
        for mark in marks:
            mark.wait()
        return Pages(self, use)

    def give_back(self, pages: Pages, free: StreamEvent) -> None:
        """Let pages be used again once the work up to a mark is done."""
        with self._changed:
            pages.use.free = free
            self._changed.notify_all()

    def pieces(self, longest: int) -> Array:
        """How the bytes of a page become a block in which its inputs come behind all else.

        Returns for each piece, of at most `longest` bytes, where it begins in the first page, how
        far away that of the next page is, where it goes, and how long it is; all in bytes.
        """
        pieces, begin, target = [], 0, 0
        for size in (self.sections.bytes, *self._of_inputs.sizes):
            for first in range(0, size, longest):
                length = min(longest, size - first)
                pieces.append((begin + first, size, target + first, length))
            begin, target = begin + self._pages * size, target + size
        return np.array(pieces, dtype=np.int64).reshape(-1, 4)

    def stop(self) -> None:
        """End the wait for pages, with an error."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


def _in_the_way(pages: _Use, begin: int, first: int, end: int) -> bool:
    """Whether pages lie between `begin` and `end`, going round the ring by way of `first`."""
    if first < begin and pages.first >= begin:
        return True
    return pages.first < end and first < pages.first + pages.count
