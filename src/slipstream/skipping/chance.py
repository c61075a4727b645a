"""Chances by number: the same for an input and an epoch whenever and wherever it is asked for."""

from __future__ import annotations

import hashlib

import numpy as np

from slipstream.data.inputs import Array

_STEP, _FIRST, _SECOND = (
    np.uint64(word) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_EPOCH = 40  # bits of an input's number below those of its epoch


def uniform(seed: int, name: str, numbers: Array, epochs: Array | int = 0) -> Array:
    """One number above 0 and at most 1 for each input, drawn evenly.

    Args:
        seed: Of the run.
        name: What is drawn: each name has chances of its own.
        numbers: The inputs.
        epochs: In which epoch each comes: in another one the draw is another.

    Example:
        >>> uniform(0, "explore", np.array([3, 4, 3])).round(3).tolist()
        [0.739, 0.714, 0.739]
    """
    digest = hashlib.sha256(f"{seed}/skipping/{name}".encode()).digest()
    counters = numbers.astype(np.uint64) + (np.asarray(epochs, np.uint64) << np.uint64(_EPOCH))
    with np.errstate(over="ignore"):
        x = counters * _STEP + np.uint64(int.from_bytes(digest[:8], "little"))
        x ^= x >> np.uint64(30)
        x *= _FIRST
        x ^= x >> np.uint64(27)
        x *= _SECOND
        x ^= x >> np.uint64(31)
    return np.asarray(((x >> np.uint64(11)) + np.uint64(1)) * 2.0**-53)
