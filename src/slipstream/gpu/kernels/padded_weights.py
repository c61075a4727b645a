"""Weights as matrix products on a GPU want them: in one type, and filled up with zeros.

There a product takes several times as long if its inner size is no multiple of eight. A layer whose
outputs the next one takes gets rows of zeros, too: what it gives is filled up then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

_ALIGNED = 64  # numbers, at a multiple of which a matrix begins


def full(size: int) -> int:
    """The multiple of eight that a size is filled up to.

    Example:
        >>> full(367)
        368
    """
    return -(-size // 8) * 8


class Place(NamedTuple):
    """Where a matrix is in a row of them."""

    start: int
    rows: int
    columns: int

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return self.rows * self.columns

    def of(self, row: Tensor) -> Tensor:
        """The matrix."""
        return row[self.start : self.start + self.size].view(self.rows, self.columns)


@dataclass(frozen=True)
class Filled:
    """What of an MLP is copied before its products, and where to: all to one row.

    Args:
        weights: Of each weight; none at all where they are taken as they are.
        biases: Of each bias, as matrices of one row.
        values: Of what goes in, if it is not taken as it is.
        size: Numbers in all.
    """

    weights: tuple[Place, ...] = ()
    biases: tuple[Place, ...] = ()
    values: Place | None = None
    size: int = 0

    @staticmethod
    def of(values: Tensor, weights: Sequence[Tensor], narrow: bool) -> Filled:
        """For these values and weights, and products of bfloat16 if they are narrow."""
        shapes = filled_shapes(weights)
        same = all(tuple(one.shape) == shape for one, shape in zip(weights, shapes, strict=True))
        if same and not narrow:
            return Filled()
        wanted = [*shapes, *((1, rows) for rows, _ in shapes)]
        columns = shapes[0][1]
        if values.shape[1] != columns or (narrow and values.dtype != torch.bfloat16):
            wanted.append((values.shape[0], columns))
        places, end = [], 0
        for rows, width in wanted:
            places.append(Place(end, rows, width))
            end += -(-rows * width // _ALIGNED) * _ALIGNED
        count = len(weights)
        mine = places[2 * count] if len(places) > 2 * count else None
        return Filled(tuple(places[:count]), tuple(places[count : 2 * count]), mine, end)


def filled_shapes(weights: Sequence[Tensor]) -> list[tuple[int, int]]:
    """The shape of each weight once it is filled up."""
    shapes = [(full(one.shape[0]), full(one.shape[1])) for one in weights]
    return [*shapes[:-1], (weights[-1].shape[0], shapes[-1][1])]
