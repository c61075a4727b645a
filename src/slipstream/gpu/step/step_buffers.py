"""The memory that a step on a device works on, always in the same place for its recording."""

from __future__ import annotations

import torch
from torch import Tensor

from slipstream.gpu.kernels import pages
from slipstream.gpu.step.arena import Arena
from slipstream.gpu.transfer.carrier import outcome_sections
from slipstream.gpu.transfer.packing import Packing
from slipstream.gpu.transfer.ring import Ring

_WORD = 8  # bytes


class StepBuffers:
    """The block with the plan of a step, and the block with its results."""

    def __init__(self, packing: Packing, arena: Arena) -> None:
        self.packing, self.of_results = packing, outcome_sections(packing, arena)
        self.block, self.out, beside = (
            torch.zeros(sections.bytes, dtype=torch.uint8, device=arena.device)
            for sections in (packing, self.of_results, packing.beside)
        )
        self.plan = packing.tensors(self.block) | packing.beside.tensors(beside)
        self.results = self.of_results.tensors(self.out)


class PageCursor:
    """The pages that a step reads and writes: each time the next ones."""

    def __init__(self, buffers: StepBuffers, plans: Ring, outcomes: Ring) -> None:
        self.buffers, self.plans, self.outcomes = buffers, plans, outcomes
        self._from, self._to = _words(plans.whole), _words(outcomes.device)
        pieces = torch.from_numpy(plans.pieces(_WORD * pages.PIECE) // _WORD)
        self._pieces = pieces.to(plans.device.device)
        self._number = torch.zeros((2, 1), dtype=torch.int64, device=plans.device.device)
        self._next = (0, 0)

    def begin(self, plan: int, outcome: int, steps: int) -> None:
        """Set the pages from which the next so many steps read and write.

        The device moves on to the next page by itself, so mostly nothing is sent.
        """
        for side, first in enumerate((plan, outcome)):
            if first != self._next[side]:
                self._number[side].fill_(first)
        self._next = (plan + steps, outcome + steps)

    def read(self) -> None:
        """Copy the plan to the buffers."""
        pages.read(self._from, self._number[0], self._pieces, _words(self.buffers.block))

    def write(self) -> None:
        """Copy the results of the step to their page, and move on to the next pages."""
        pages.write(self._to, self._number[1], _words(self.buffers.out))
        self._number += 1


def _words(data: Tensor) -> Tensor:
    """The same bytes, eight at a time."""
    return data.view(torch.int64)
