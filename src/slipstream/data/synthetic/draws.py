"""Random numbers by position, and draws of rows by a power law: the same on every machine.

A random word is a hash of a key and a counter, so any example can be drawn without those before it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from slipstream.arrays import Array
from slipstream.data.key_table import GOLDEN, mix

_BITS = 16  # the inverse of the distribution is known at 2 ** 16 + 1 evenly spaced shares
_EXACT = 2048  # the most popular rows have a weight of their own, the others share buckets


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


@dataclass(frozen=True)
class PowerLaw:
    """Row k is drawn in proportion to `(k + 1) ** -exponent`, at the same cost for any table."""

    rows: int
    starts: Array  # where each of 2 ** 16 equal shares of the draws begins, as a fractional row
    widths: Array  # how many rows each of these shares spans

    @classmethod
    def over(cls, rows: int, exponent: float) -> PowerLaw:
        """The law over so many rows."""
        edges = _bucket_edges(rows)
        draws = np.concatenate([[0.0], np.cumsum(_bucket_weights(edges, exponent))])
        points = np.interp(np.linspace(0, 1, (1 << _BITS) + 1), draws / draws[-1], edges)
        points = np.rint(points * 2.0**20) / 2.0**20  # the same bits on every machine
        return cls(rows, points[:-1], np.diff(points))

    def draw(self, words: Array) -> Array:
        """One row, as int64, for each random word."""
        cell = (words >> np.uint64(64 - _BITS)).astype(np.int64)
        inside = (words & np.uint64((1 << 64 - _BITS) - 1)) * 2.0 ** (_BITS - 64)
        inside *= self.widths[cell]
        inside += self.starts[cell]
        rows = inside.astype(np.int64)
        return np.minimum(rows, self.rows - 1, out=rows)


def _bucket_edges(rows: int) -> Array:
    """Where buckets of rows begin, and where the last one ends; far ones grow with the row."""
    if rows <= 2 * _EXACT:
        return np.arange(rows + 1)
    tail = np.geomspace(_EXACT, rows, _EXACT + 1)[1:]
    return np.unique(np.concatenate([np.arange(_EXACT + 1), np.rint(tail).astype(np.int64)]))


def _bucket_weights(edges: Array, exponent: float) -> Array:
    """The weight of each bucket: exact for single rows, an integral for more."""
    first, last = edges[:-1].astype(np.float64), edges[1:].astype(np.float64)
    low, high = first + 0.5, last + 0.5
    if abs(exponent - 1) < 1e-9:
        together = np.log(high / low)
    else:
        together = (high ** (1 - exponent) - low ** (1 - exponent)) / (1 - exponent)
    return np.where(last - first == 1, (first + 1) ** -exponent, together)
