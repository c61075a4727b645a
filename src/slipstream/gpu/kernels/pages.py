"""One page of many to where a step works, and back: which one, the device knows."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

PIECE = 1024
"""The most words of eight bytes that are copied as one piece."""


@torch.library.custom_op("slipstream::read_page", mutates_args={"target"})
def read(pages: Tensor, number: Tensor, pieces: Tensor, target: Tensor) -> None:
    """Copy a page that is in several pieces.

    Args:
        pages: int64, all of them.
        number: int64, which one, in one element.
        pieces: int64 `[pieces, 4]`: where each begins in the first page, how far away that of the
            next page is, where it goes, and how long it is: `PIECE` at most.
        target: int64; changed.
    """
    if len(pieces):
        _join[(len(pieces),)](pages, number, pieces, target, BLOCK=PIECE)


@torch.library.custom_op("slipstream::write_page", mutates_args={"pages"})
def write(pages: Tensor, number: Tensor, source: Tensor) -> None:
    """Copy to a page.

    Args:
        pages: int64 `[pages, words]`; changed.
        number: int64, which one, in one element.
        source: int64 `[words]`.
    """
    if len(source):
        grid = (triton.cdiv(len(source), PIECE),)
        _write[grid](source, pages, number, len(source), BLOCK=PIECE)


@triton.jit
def _join(pages, number, pieces, target, BLOCK: tl.constexpr):
    piece = pieces + 4 * tl.program_id(0)
    begin = tl.load(piece) + tl.load(number) * tl.load(piece + 1)
    word = tl.arange(0, BLOCK)
    inside = word < tl.load(piece + 3)
    words = tl.load(pages + begin + word, mask=inside)
    tl.store(target + tl.load(piece + 2) + word, words, mask=inside)


@triton.jit
def _write(source, pages, number, words, BLOCK: tl.constexpr):
    word = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = word < words
    page = tl.load(number) * words
    tl.store(pages + page + word, tl.load(source + word, mask=inside), mask=inside)
