"""Weights as matrix products on a GPU want them: in one type, and padded with zeros.

A product takes several times as long if its inner size is no multiple of eight. A layer whose
outputs are the inputs of the next one gets rows of zeros, too, so that its result is padded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

_ALIGNED = 64  # numbers, at a multiple of which a matrix begins


def full(size: int) -> int:
    """The next multiple of eight.

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
    """The matrices of an MLP that are copied before its products, into one row of `size` numbers.

    `weights` and `biases` (matrices of one row) are empty where they are used as they are; `values`
    is None likewise.
    """

    weights: tuple[Place, ...] = ()
    biases: tuple[Place, ...] = ()
    values: Place | None = None
    size: int = 0

    @staticmethod
    def of(values: Tensor, weights: Sequence[Tensor], narrow: bool) -> Filled:
        """For these values and weights, and for products of bfloat16 if `narrow`."""
        shapes = filled_shapes(weights)
        if [tuple(weight.shape) for weight in weights] == shapes and not narrow:
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
        of_values = places[2 * count] if len(places) > 2 * count else None
        return Filled(tuple(places[:count]), tuple(places[count : 2 * count]), of_values, end)


def filled_shapes(weights: Sequence[Tensor]) -> list[tuple[int, int]]:
    """The shape of each weight once it is padded."""
    shapes = [(full(weight.shape[0]), full(weight.shape[1])) for weight in weights]
    return [*shapes[:-1], (weights[-1].shape[0], shapes[-1][1])]
