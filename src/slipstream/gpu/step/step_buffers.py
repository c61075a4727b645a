"""What a step on a device works on, always in the same place: a recording finds it there."""

from __future__ import annotations

import torch
from torch import Tensor

from slipstream.gpu.kernels import pages
from slipstream.gpu.step.arena import Arena
from slipstream.gpu.transfer.carrier import given_by
from slipstream.gpu.transfer.packing import Packing
from slipstream.gpu.transfer.ring import Ring

_WORD = 8  # bytes


class StepBuffers:
    """What a step works on: the block of its plan, and that of what it gives.

    Args:
        packing: How plans are packed.
        arena: The slots.
    """

    def __init__(self, packing: Packing, arena: Arena) -> None:
        self.packing, self.given = packing, given_by(packing, arena)
        self.block, self.out, beside = (
            torch.zeros(one.bytes, dtype=torch.uint8, device=arena.device)
            for one in (packing, self.given, packing.beside)
        )
        self.plan = packing.tensors(self.block) | packing.beside.tensors(beside)
        self.gives = self.given.tensors(self.out)


class PageCursor:
    """Which pages a step reads and writes: the next ones, each time.

    Args:
        bench: Where it works.
        plans: The ring of plans.
        outcomes: The ring of what steps give.
    """

    def __init__(self, buffers: StepBuffers, plans: Ring, outcomes: Ring) -> None:
        self.buffers, self.plans, self.outcomes = buffers, plans, outcomes
        self._from, self._to = _words(plans.whole), _words(outcomes.device)
        pieces = torch.from_numpy(plans.pieces(_WORD * pages.PIECE) // _WORD)
        self._pieces = pieces.to(plans.device.device)
        self._number = torch.zeros((2, 1), dtype=torch.int64, device=plans.device.device)
        self._next = (0, 0)

    def begin(self, plan: int, outcome: int, steps: int) -> None:
        """The next so many steps read and write the pages from these on.

        The device turns to the next page by itself, so mostly it need not be told.
        """
        for which, first in enumerate((plan, outcome)):
            if first != self._next[which]:
                self._number[which].fill_(first)
        self._next = (plan + steps, outcome + steps)

    def read(self) -> None:
        """Have the plan on the bench."""
        pages.read(self._from, self._number[0], self._pieces, _words(self.buffers.block))

    def write(self) -> None:
        """Take what the step gave, and turn to the next pages."""
        pages.write(self._to, self._number[1], _words(self.buffers.out))
        self._number += 1


def _words(data: Tensor) -> Tensor:
    """The same bytes, eight at a time."""
    return data.view(torch.int64)
