"""64-bit keys of raw values: the same on every machine and in every version."""

from __future__ import annotations

import numpy as np

from slipstream.data.inputs import Array

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_WORD = 8


def mix(keys: Array) -> Array:
    """A random-looking 64-bit word for each key (the last steps of SplitMix64)."""
    x = keys.astype(np.uint64) + _GOLDEN
    x ^= x >> np.uint64(30)
    x *= _FIRST
    x ^= x >> np.uint64(27)
    x *= _SECOND
    x ^= x >> np.uint64(31)
    return x


def text_keys(data: bytes, lengths: Array) -> Array:
    """A key for each of the strings that lie in `data` one after the other.

    Args:
        data: The UTF-8 bytes of all strings.
        lengths: How many bytes each string has.

    Example:
        >>> keys = text_keys(b"plumpearplum", np.array([4, 4, 4]))
        >>> bool(keys[0] == keys[2]), bool(keys[0] == keys[1])
        (True, False)
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    keys = mix(lengths.astype(np.uint64))
    padded = data + b"\0" * _WORD
    words: Array = np.ndarray((len(data) + 1,), dtype="<u8", buffer=padded, strides=(1,))
    active = np.flatnonzero(lengths > 0)
    done = 0
    while len(active):
        word = words[starts[active] + done]
        left = np.minimum(lengths[active] - done, _WORD)
        short = left < _WORD
        if short.any():  # what lies behind the end of a string is the next one's
            bits = (left[short] * 8).astype(np.uint64)
            word[short] &= (np.uint64(1) << bits) - np.uint64(1)
        keys[active] = mix(keys[active] ^ word)
        done += _WORD
        active = active[lengths[active] > done]
    return keys


def keys_of_text(values: list[str]) -> Array:
    """A key for each string."""
    encoded = [value.encode() for value in values]
    lengths = np.fromiter((len(value) for value in encoded), dtype=np.int64, count=len(encoded))
    return text_keys(b"".join(encoded), lengths)
