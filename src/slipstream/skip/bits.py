"""A bit for each of many numbers."""

from __future__ import annotations

import numpy as np

from slipstream.arrays import Array


def bits_of(bits: Array, numbers: Array) -> Array:
    """Whether the bit of each number is set.

    Example:
        >>> bits = np.zeros(2, dtype=np.uint8)
        >>> set_bits(bits, np.array([3, 9]))
        >>> bits_of(bits, np.array([2, 3, 9])).tolist()
        [False, True, True]
    """
    return np.asarray((bits[numbers >> 3] >> (numbers & 7).astype(np.uint8)) & 1, dtype=bool)


def set_bits(bits: Array, numbers: Array) -> None:
    """Set the bit of each number."""
    np.bitwise_or.at(bits, numbers >> 3, np.uint8(1) << (numbers & 7).astype(np.uint8))
