"""One page of many to where a step works, and back: which one, the device knows."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024


@torch.library.custom_op("slipstream::read_page", mutates_args={"target"})
def read(pages: Tensor, number: Tensor, target: Tensor) -> None:
    """Copy a page.

    Args:
        pages: int64 `[pages, words]`.
        number: int64, which one, in one element.
        target: int64 `[words]`; changed.
    """
    _copy[_grid(target)](pages, target, number, len(target), INTO=False, BLOCK=_BLOCK)


@torch.library.custom_op("slipstream::write_page", mutates_args={"pages"})
def write(pages: Tensor, number: Tensor, source: Tensor) -> None:
    """Copy to a page.

    Args:
        pages: int64 `[pages, words]`; changed.
        number: int64, which one, in one element.
        source: int64 `[words]`.
    """
    _copy[_grid(source)](source, pages, number, len(source), INTO=True, BLOCK=_BLOCK)


def _grid(words: Tensor) -> tuple[int]:
    return (triton.cdiv(len(words), _BLOCK),)


@triton.jit
def _copy(source, target, number, words, INTO: tl.constexpr, BLOCK: tl.constexpr):
    page = tl.load(number) * words
    word = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = word < words
    come_from = word if INTO else page + word
    go_to = page + word if INTO else word
    tl.store(target + go_to, tl.load(source + come_from, mask=inside), mask=inside)
