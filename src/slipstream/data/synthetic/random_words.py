"""Random words by number: the same on every machine and with any number of threads.

A word is a hash of a key and a counter, so any example can be drawn without those before it.
"""

from __future__ import annotations

import hashlib

import numpy as np

from slipstream.arrays import Array
from slipstream.data.hashing import GOLDEN, mix


def key(seed: int, *names: object) -> np.uint64:
    """An independent key for each seed and name."""
    digest = hashlib.sha256("/".join(map(str, (seed, *names))).encode()).digest()
    return np.uint64(int.from_bytes(digest[:8], "little"))


def random_words(key: np.uint64, counters: Array) -> Array:
    """One random uint64 for each counter: the SplitMix64 sequence from `key` on."""
    x = counters.astype(np.uint64)
    x *= GOLDEN
    x += key
    x -= GOLDEN
    return mix(x)


def shares(words: Array) -> Array:
    """The words as numbers from 0 up to, but without, 1."""
    return (words >> np.uint64(11)) * 2.0**-53


def distinct_words32(numbers: Array, key: np.uint64) -> Array:
    """Distinct 32-bit numbers for distinct 32-bit numbers, without visible order."""
    x = (numbers.astype(np.uint64) + key) & np.uint64(0xFFFFFFFF)
    return ((x * np.uint64(0x846CA68B)) & np.uint64(0xFFFFFFFF)).astype(np.uint32)
