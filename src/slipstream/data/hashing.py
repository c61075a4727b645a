"""64-bit keys of raw values: the same on every machine and in every version."""

from __future__ import annotations

import numpy as np

from slipstream.arrays import Array

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_WORD = 8
_LONG = 1024  # bytes; longer strings are cut into pieces of as many


def mix(keys: Array) -> Array:
    """A random-looking 64-bit word for each key (the last steps of SplitMix64)."""
    x = keys.astype(np.uint64) + GOLDEN
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
    padded = data + b"\0" * _WORD
    words: Array = np.ndarray((len(data) + 1,), dtype="<u8", buffer=padded, strides=(1,))
    return _keys(words, np.cumsum(lengths) - lengths, lengths)


def _keys(words: Array, starts: Array, lengths: Array) -> Array:
    """The keys of strings; the words begin at every byte."""
    long = np.flatnonzero(lengths > _LONG)
    if not len(long):
        return _short_keys(words, starts, lengths)
    # Word after word is quick for many strings at once, not for one of many words: a long one is
    # the string of its pieces' keys.
    pieces = -(-lengths[long] // _LONG)
    owners = np.repeat(np.arange(len(long)), pieces)
    places = (np.arange(len(owners)) - np.repeat(np.cumsum(pieces) - pieces, pieces)) * _LONG
    sizes = np.minimum(lengths[long][owners] - places, _LONG)
    piece_keys = _short_keys(words, starts[long][owners] + places, sizes)
    keys = np.empty(len(lengths), dtype=np.uint64)
    keys[long] = mix(text_keys(piece_keys.astype("<u8").tobytes(), pieces * _WORD) ^ _SECOND)
    short = np.flatnonzero(lengths <= _LONG)
    keys[short] = _short_keys(words, starts[short], lengths[short])
    return keys


def _short_keys(words: Array, starts: Array, lengths: Array) -> Array:
    keys = mix(lengths.astype(np.uint64))
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
