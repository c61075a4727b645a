"""Copies rows from one array to another, by compiled code without the interpreter lock."""

from __future__ import annotations

from slipstream.arrays import Array
from slipstream.compiled import compiled


@compiled
def copy_rows(source: Array, wanted: Array, places: Array, out: Array) -> None:
    """Copy row `wanted[k]` of the source to row `places[k]` of `out`, for each k."""
    width = source.shape[1]
    for k in range(len(wanted)):
        row, place = wanted[k], places[k]
        for d in range(width):
            out[place, d] = source[row, d]


@compiled
def span(numbers: Array) -> tuple[int, int, int]:
    """The lowest and the highest of some numbers, and how many do not follow the one before."""
    lowest = highest = numbers[0]
    breaks = 0
    for i in range(1, len(numbers)):
        lowest, highest = min(lowest, numbers[i]), max(highest, numbers[i])
        breaks += numbers[i] - numbers[i - 1] != 1
    return lowest, highest, breaks


@compiled
def is_rising(numbers: Array) -> bool:
    """Whether no number is below the one before it."""
    rising = True
    for k in range(1, len(numbers)):
        rising &= numbers[k] >= numbers[k - 1]
    return rising


@compiled
def count_up(numbers: Array, first: int) -> None:
    """Fill numbers with consecutive ones from the first on."""
    for k in range(len(numbers)):
        numbers[k] = first + k
