"""Random words by number: the same on every machine and with any number of threads.

A word is a hash of a key and a counter, so any example can be drawn without those before it.
"""

from __future__ import annotations

import hashlib

import numpy as np

from slipstream.data.inputs import Array

_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def key(seed: int, *names: object) -> np.uint64:
    """An independent key for each seed and name."""
    digest = hashlib.sha256("/".join(map(str, (seed, *names))).encode()).digest()
    return np.uint64(int.from_bytes(digest[:8], "little"))


def random_words(key: np.uint64, counters: Array) -> Array:
    """One random uint64 for each counter: the SplitMix64 sequence from `key` on."""
    x = counters.astype(np.uint64)
    x *= np.uint64(_STEP)
    x += key
    x ^= x >> np.uint64(30)
    x *= np.uint64(_FIRST)
    x ^= x >> np.uint64(27)
    x *= np.uint64(_SECOND)
    x ^= x >> np.uint64(31)
    return x


def shares(words: Array) -> Array:
    """The words as numbers from 0 up to, but without, 1."""
    return (words >> np.uint64(11)) * 2.0**-53


def distinct_words32(numbers: Array, key: np.uint64) -> Array:
    """Distinct 32-bit numbers for distinct 32-bit numbers, without visible order."""
    x = (numbers.astype(np.uint64) + key) & np.uint64(0xFFFFFFFF)
    return ((x * np.uint64(0x846CA68B)) & np.uint64(0xFFFFFFFF)).astype(np.uint32)
