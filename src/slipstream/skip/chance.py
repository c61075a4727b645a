"""Random numbers by example: the same for an example and an epoch, wherever they are drawn."""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np

from slipstream.arrays import Array

# The constants of SplitMix64.
_STEP, _FIRST, _SECOND = (
    np.uint64(word) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_EPOCH = np.uint64(40)  # bits of an example's number below those of its epoch


def uniform(seed: int, name: str, numbers: Array, epochs: Array | int = 0) -> Array:
    """A number above 0 and at most 1 for each example, drawn evenly.

    Args:
        seed: The seed of the run.
        name: The purpose: each name has numbers of its own.
        numbers: The examples.
        epochs: The epoch of each: another epoch has other numbers.

    Example:
        >>> uniform(0, "explore", np.array([3, 4, 3])).round(3).tolist()
        [0.739, 0.714, 0.739]
    """
    x = np.asarray(epochs).astype(np.uint64) << _EPOCH
    x = (np.asarray(numbers).astype(np.uint64) + x) * _STEP + _word(seed, name)
    x ^= x >> np.uint64(30)
    x *= _FIRST
    x ^= x >> np.uint64(27)
    x *= _SECOND
    x ^= x >> np.uint64(31)
    return np.asarray(((x >> np.uint64(11)) + np.uint64(1)).astype(np.float64) * 2.0**-53)


@cache
def _word(seed: int, name: str) -> np.uint64:
    digest = hashlib.sha256(f"{seed}/skipping/{name}".encode()).digest()
    return np.uint64(int.from_bytes(digest[:8], "little"))
