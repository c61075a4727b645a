"""Random numbers by example: the same for an example and an epoch, wherever they are drawn."""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np

from slipstream.arrays import Array
from slipstream.compiled import compiled

_STEP, _FIRST, _SECOND = (
    np.uint64(word) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_EPOCH = np.uint64(40)  # bits of an example's number below those of its epoch


def uniform(seed: int, name: str, numbers: Array, epochs: Array | int = 0) -> Array:
    """A number above 0 and at most 1 for each example, drawn evenly.

    Args:
        seed: The seed of the run.
        name: What is drawn: each name has numbers of its own.
        numbers: The examples.
        epochs: The epoch of each: another epoch has other numbers.

    Example:
        >>> uniform(0, "explore", np.array([3, 4, 3])).round(3).tolist()
        [0.739, 0.714, 0.739]
    """
    epochs = np.broadcast_to(np.asarray(epochs, np.int64), numbers.shape)
    out = np.empty(len(numbers), dtype=np.float64)
    _draw(_word(seed, name), np.asarray(numbers, np.int64), epochs, out)
    return out


@cache
def _word(seed: int, name: str) -> np.uint64:
    digest = hashlib.sha256(f"{seed}/skipping/{name}".encode()).digest()
    return np.uint64(int.from_bytes(digest[:8], "little"))


@compiled
def _draw(word: np.uint64, numbers: Array, epochs: Array, out: Array) -> None:
    for k in range(len(numbers)):
        counter = np.uint64(numbers[k]) + (np.uint64(epochs[k]) << _EPOCH)
        x = counter * _STEP + word
        x ^= x >> np.uint64(30)
        x *= _FIRST
        x ^= x >> np.uint64(27)
        x *= _SECOND
        x ^= x >> np.uint64(31)
        out[k] = np.float64((x >> np.uint64(11)) + np.uint64(1)) * 2.0**-53
