"""One block of memory with all data of a step: one copy takes it to the device."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from slipstream.arrays import Array

_ALIGNMENT = 64
_NUMPY: dict[torch.dtype, np.dtype[Any]] = {
    torch.int32: np.dtype(np.int32),
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
}


class Section(NamedTuple):
    """A tensor in the block: its type and its shape."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Its size."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class Sections:
    """Tensors by name, one behind the other in a block of bytes."""

    all: Mapping[str, Section]

    @property
    def sizes(self) -> list[int]:
        """Bytes that each tensor has in a block."""
        return [_aligned(section.bytes) for section in self.all.values()]

    @property
    def bytes(self) -> int:
        """Size of a block."""
        return sum(self.sizes)

    def tensors(self, block: Tensor) -> dict[str, Tensor]:
        """The tensors in a block, as views of it."""
        views = {}
        for name, section in self.all.items():
            start = self.starts[name]
            views[name] = (
                block[start : start + section.bytes].view(section.dtype).view(section.shape)
            )
        return views

    @cached_property
    def starts(self) -> dict[str, int]:
        """Where each tensor begins, in bytes."""
        return dict(zip(self.all, accumulate(self.sizes, initial=0), strict=False))

    def columns(self, memory: Tensor, blocks: int) -> dict[str, Tensor]:
        """The tensors of many blocks, in memory with the first of every block, then the second."""
        views = {}
        for (name, section), size in zip(self.all.items(), self.sizes, strict=True):
            own, memory = memory[: blocks * size], memory[blocks * size :]
            # As numbers first: PyTorch cannot view empty rows as another type.
            own = own.view(section.dtype).view(blocks, size // section.dtype.itemsize)
            views[name] = own[:, : math.prod(section.shape)].view(blocks, *section.shape)
        return views

    def stacked(self, pages: Array) -> dict[str, Array]:
        """The same of many blocks at once, `[blocks, ...]`, in host memory."""
        views = {}
        for name, section in self.all.items():
            dtype = _NUMPY[section.dtype]
            inside = np.empty(section.shape, dtype).strides
            shape, strides = (len(pages), *section.shape), (pages.strides[0], *inside)
            views[name] = np.ndarray(shape, dtype, pages, self.starts[name], strides)
        return views

    def arrays(self, block: Array) -> dict[str, Array]:
        """The same, of a block in host memory."""
        return {
            name: np.ndarray(section.shape, _NUMPY[section.dtype], block, self.starts[name])
            for name, section in self.all.items()
        }


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
