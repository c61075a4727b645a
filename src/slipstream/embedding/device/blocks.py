"""Blocks of memory in pairs, one on the host and one on the device, used again when free."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field

import torch
from torch import Tensor

from slipstream.data.inputs import Array
from slipstream.embedding.device.lanes import Lane, Mark
from slipstream.embedding.device.sections import Sections


@dataclass
class Block:
    """The same bytes on the host, in memory that a device copies from, and on the device.

    Args:
        sections: What is in each of its pages.
        host: The bytes on the host, `[pages, bytes]`.
        device: The bytes on the device.
        free: When what was last asked of it is done.
    """

    sections: Sections
    host: Tensor
    device: Tensor
    free: Mark = field(default_factory=Mark)
    arrays: list[dict[str, Array]] = field(init=False)
    pages: tuple[Tensor, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.arrays = [self.sections.arrays(one) for one in self.host.numpy()]
        self.pages = self.device.unbind()


class Blocks:
    """Hands out blocks; as many are made as are in use at once.

    Args:
        device: Where the other half of each is.
        pages: How many plans a block has room for.
    """

    def __init__(self, device: torch.device, pages: int) -> None:
        self._device, self._pages = device, pages
        self._lock = threading.Lock()
        self._free: deque[Block] = deque()
        self._sections: Sections | None = None

    def take(self, sections: Sections) -> Block:
        """A block with pages of these sections; who writes to it waits until it is free."""
        with self._lock:
            if self._sections is not sections:
                self._sections = sections
                self._free.clear()
            if self._free:
                return self._free.popleft()
        pin = self._device.type == "cuda"
        shape = (self._pages, sections.bytes)
        host = torch.zeros(shape, dtype=torch.uint8, pin_memory=pin)
        there = torch.zeros_like(host, device=self._device)
        # Steps under way may still use the memory that is new here, and it is cleared after them:
        # a copy that goes on beside the computation must wait for both.
        return Block(sections, host, there, Lane(self._device, current=True).mark())

    def give_back(self, block: Block, free: Mark) -> None:
        """Let a block be used again once the work up to a mark is done."""
        block.free = free
        with self._lock:
            if block.sections is self._sections:
                self._free.append(block)
