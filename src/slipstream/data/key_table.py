"""64-bit keys of raw values, the same in every version, and a hash table that finds their ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from slipstream.arrays import Array

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_WORD = 8
_LONG = 1024  # bytes; longer strings are cut into pieces of as many
_AT_ONCE = 1 << 16
_INSERTED_AT_ONCE = 1 << 20
_HALF = np.uint64(32)
_LOW = np.uint64(2**32 - 1)
Make = Callable[[int, "np.dtype[Any]"], Array]


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
    """A key for each of the strings whose UTF-8 bytes lie in `data` one after the other.

    Example:
        >>> keys = text_keys(b"plumpearplum", np.array([4, 4, 4]))
        >>> bool(keys[0] == keys[2]), bool(keys[0] == keys[1])
        (True, False)
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    padded = data + b"\0" * _WORD
    # A word begins at every byte.
    words: Array = np.ndarray((len(data) + 1,), dtype="<u8", buffer=padded, strides=(1,))
    starts = np.cumsum(lengths) - lengths
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


def bytes_needed(entries: int) -> int:
    """The most bytes that a table of so many keys takes."""
    return _size(entries) * 16


class KeyTable:
    """A table from keys to ids, with open addressing and at most half of its slots taken.

    Where keys and ids are below 2^32 a slot is one word with both, so that a find is one access
    to memory; otherwise keys and ids lie in two arrays. A slot with id 0 (ids are kept plus one)
    is free. `make` returns an array of zeros of a size and dtype; by default in memory.

    Example:
        >>> table = KeyTable(2, narrow=True)
        >>> table.add(np.array([7, 9]), np.array([0, 1]))
        >>> table.find(np.array([9, 8, 7]), default=5).tolist()
        [1, 5, 0]
    """

    def __init__(self, entries: int, *, narrow: bool, make: Make = np.zeros) -> None:
        size = _size(entries)
        self.narrow = narrow
        self._last = np.int64(size - 1)
        self._shift = np.uint64(64 - (size.bit_length() - 1))
        self._slots = make(size, np.dtype(np.uint64))
        self._ids = None if narrow else make(size, np.dtype(np.int64))

    def add(self, keys: Array, ids: Array) -> None:
        """Add keys, none of which is there already, and their ids."""
        for start in range(0, len(keys), _INSERTED_AT_ONCE):
            stop = start + _INSERTED_AT_ONCE
            self._add(_unsigned(keys[start:stop]), np.asarray(ids[start:stop], dtype=np.int64) + 1)

    def _add(self, keys: Array, numbers: Array) -> None:
        slots = self._first(keys)
        while len(keys):
            free = self._numbers(slots) == 0
            self._put(slots[free], keys[free], numbers[free])
            # Of several keys that found the same slot free, the last one written has it.
            left = np.flatnonzero(~self._has(slots, keys, numbers))
            keys, numbers = keys[left], numbers[left]
            slots = (slots[left] + 1) & self._last

    def _numbers(self, slots: Array) -> Array:
        if self._ids is not None:
            return self._ids[slots]
        return (self._slots[slots] & _LOW).astype(np.int64)

    def _has(self, slots: Array, keys: Array, numbers: Array) -> Array:
        """Whether each slot holds that key and id; several keys may share an id."""
        if self._ids is not None:
            return (self._slots[slots] == keys) & (self._ids[slots] == numbers)
        return self._slots[slots] == ((keys << _HALF) | numbers.astype(np.uint64))

    def _put(self, slots: Array, keys: Array, numbers: Array) -> None:
        if self._ids is not None:
            self._slots[slots] = keys
            self._ids[slots] = numbers
            # With equal slots both arrays keep the last write, so key and id belong together.
        else:
            self._slots[slots] = (keys << _HALF) | numbers.astype(np.uint64)

    def find(self, keys: Array, default: int) -> Array:
        """The id of each key, or `default` where it is not there."""
        out = np.empty(len(keys), dtype=np.int64)
        for start in range(0, len(keys), _AT_ONCE):  # a block that stays in the cache
            out[start : start + _AT_ONCE] = self._find(
                _unsigned(keys[start : start + _AT_ONCE]), default
            )
        return out

    def _find(self, keys: Array, default: int) -> Array:
        slots = self._first(keys)
        hit, numbers, more = self._look(slots, keys)
        out = np.where(hit, numbers, default)
        open_keys = np.flatnonzero(more)
        while len(open_keys):  # most keys lie in their first slot; the rest a few slots on
            keys, slots = keys[more], (slots[more] + 1) & self._last
            hit, numbers, more = self._look(slots, keys)
            out[open_keys[hit]] = numbers[hit]
            open_keys = open_keys[more]
        return out

    def _look(self, slots: Array, keys: Array) -> tuple[Array, Array, Array]:
        """Whether each slot has its key, the id there, and whether it has another key."""
        slot_words = self._slots[slots]
        if self._ids is None:
            numbers = (slot_words & _LOW).astype(np.int64)
            same = (slot_words >> _HALF) == keys
        else:
            numbers = self._ids[slots]
            same = slot_words == keys
        occupied = numbers != 0
        return same & occupied, numbers - 1, occupied & ~same

    def _first(self, keys: Array) -> Array:
        return ((keys * GOLDEN) >> self._shift).astype(np.int64)


def _unsigned(keys: Array) -> Array:
    if keys.dtype == np.int64:
        return keys.view(np.uint64)
    return keys.astype(np.uint64, copy=False)


def _size(entries: int) -> int:
    return 1 << max(4, (2 * entries - 1).bit_length())
