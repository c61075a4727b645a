"""One page of many to where a step works, and back; the device knows its number."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

PIECE = 1024
"""The most words of eight bytes that are copied as one piece."""


@torch.library.custom_op("slipstream::read_page", mutates_args={"target"})
def read(pages: Tensor, number: Tensor, pieces: Tensor, target: Tensor) -> None:
    """Copy page `number` (one element), which is in several pieces, to `target`; all are int64.

    `pieces` `[pieces, 4]` holds for each piece where it begins in the first page, how far away that
    of the next page is, where it goes, and how long it is: at most `PIECE`.
    """
    if len(pieces):
        _join[(len(pieces),)](pages, number, pieces, target, BLOCK=PIECE)


@torch.library.custom_op("slipstream::write_page", mutates_args={"pages"})
def write(pages: Tensor, number: Tensor, source: Tensor) -> None:
    """Copy `source` to page `number` (one element) of `pages` `[pages, words]`; all are int64."""
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
