"""Puts numbers in random order, by compiled code."""

from __future__ import annotations

import numpy as np

from slipstream.arrays import Array
from slipstream.compiled import compiled

ROUNDS = 6


@compiled
def permutation(n: int, keys: Array) -> Array:
    """The numbers 0 to n in an order that follows from the keys, as int64.

    Rounds of keyed multiply-add and xor-shift map the numbers below a power of two onto themselves;
    those from n on are left out. This is several times faster than sorting random keys, and NumPy
    may change its own `permutation`. `keys` are `2 * ROUNDS` random numbers of 64 bits.
    """
    bits = 1
    while max(n - 1, 1) >> bits:
        bits += 1
    mask = np.uint64((1 << bits) - 1)
    half = np.uint64((bits + 1) // 2)
    factors, shifts = (keys[0::2] & mask) | np.uint64(1), keys[1::2] & mask
    numbers = np.empty(1 << bits, dtype=np.int64)
    count = 0
    for i in range(1 << bits):
        x = np.uint64(i)
        for r in range(ROUNDS):
            x = (x * factors[r] + shifts[r]) & mask
            x ^= x >> half
        numbers[count] = np.int64(x)
        count += np.int64(x) < n
    return numbers[:count]


@compiled
def mixed(firsts: Array, inside: Array, block: int, run: int) -> Array:
    """The examples of blocks that start at `firsts`, by runs in the order `inside`."""
    runs = block // run
    numbers = np.empty(len(inside) * run, dtype=np.int64)
    for k in range(len(inside)):
        number = inside[k] // runs
        start = firsts[number] + (inside[k] - number * runs) * run
        for i in range(run):
            numbers[k * run + i] = start + i
    return numbers
