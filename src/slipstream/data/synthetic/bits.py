"""Random words by number: the same on every machine, device and number of threads.

All of built-in data is made with whole numbers, whose arithmetic has one right answer everywhere;
only tables of probabilities and effects begin as real numbers, and are rounded once. A word is a
hash of a key and a counter, so any input can be made without those before it.
"""

from __future__ import annotations

import hashlib

from torch import Tensor


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


_STEP = _signed(0x9E3779B97F4A7C15)
_FIRST = _signed(0xBF58476D1CE4E5B9)
_SECOND = _signed(0x94D049BB133111EB)


def key(seed: int, *names: object) -> int:
    """An independent key for each seed and name."""
    digest = hashlib.sha256("/".join(map(str, (seed, *names))).encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)


def words(key: int, counters: Tensor) -> Tensor:
    """One random 64-bit word for each counter (the SplitMix64 sequence from `key` on)."""
    x = counters * _STEP
    x += key
    x ^= (x >> 30) & (2**34 - 1)
    x *= _FIRST
    x ^= (x >> 27) & (2**37 - 1)
    x *= _SECOND
    x ^= (x >> 31) & (2**33 - 1)
    return x


def low32(x: Tensor) -> Tensor:
    """The lower half of each word, as a number from 0 to 2^32."""
    return x & 0xFFFFFFFF


def high32(x: Tensor) -> Tensor:
    """The upper half of each word, as a number from 0 to 2^32."""
    return (x >> 32) & 0xFFFFFFFF


def scramble32(numbers: Tensor, salt: int) -> Tensor:
    """Distinct 32-bit numbers for distinct 32-bit numbers, without visible order."""
    x = (numbers + salt) & 0xFFFFFFFF
    for factor in (0x7FEB352D, 0x846CA68B):
        x = x ^ (x >> 16)
        x = (x * factor) & 0xFFFFFFFF
    return x ^ (x >> 16)
