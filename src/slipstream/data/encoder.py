"""Gives raw values the ids that they have in a data set."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slipstream.arrays import Array
from slipstream.data.dictionary import Dictionary
from slipstream.data.hashing import mix, text_keys
from slipstream.data.lookup import KeyTable, Make
from slipstream.data.raw_values import raw_keys
from slipstream.data.schema import Table
from slipstream.errors import DataError

_AT_ONCE = 1 << 18


class Encoder:
    """From raw values of one table to ids.

    Args:
        table: The table.
        dictionary: The raw value of each id; None for a table of hashed buckets alone.
        buckets: The id of each bucket, where a table has some.
        make: Makes the arrays of the lookup; by default in memory.

    Example:
        >>> table = Table("shop", rows=3, unseen=2, missing=0, values="text")
        >>> Encoder(table, Dictionary.of_text(["", "mill", ""])).encode(["mill", None, "new"])
        array([1, 0, 2])
    """

    def __init__(
        self,
        table: Table,
        dictionary: Dictionary | None,
        buckets: Array | None = None,
        make: Make = np.zeros,
    ) -> None:
        if dictionary is None and buckets is None:
            raise DataError(
                f"Table {table.name!r} has neither a dictionary nor buckets: its ids were given."
            )
        self.table, self.buckets = table, buckets
        self._keys: KeyTable | None = None
        if dictionary is not None:
            self._keys = KeyTable(len(dictionary), narrow=is_narrow(table, dictionary), make=make)
            for start in range(0, len(dictionary), _AT_ONCE):
                self._add(dictionary, start, min(start + _AT_ONCE, len(dictionary)))
        self._kind = table.hashed if dictionary is None else dictionary.kind

    def _add(self, dictionary: Dictionary, start: int, stop: int) -> None:
        assert self._keys is not None, "called where there is a dictionary"
        keys = dictionary_keys(dictionary, start, stop)
        ids = np.arange(start, stop)
        own = np.ones(len(ids), dtype=np.bool_)
        for special in (self.table.unseen, self.table.missing):
            if special is not None:
                own &= ids != special
        if self.buckets is not None:
            own &= ~np.isin(ids, self.buckets)
            tail = ids >= self.table.rows
            ids = np.where(tail, self.buckets[self._bucket(keys)], ids)
        self._keys.add(keys[own], ids[own])

    def _bucket(self, keys: Array) -> Array:
        assert self.buckets is not None, "called where there are buckets"
        return (mix(keys) % np.uint64(len(self.buckets))).astype(np.int64)

    def ids(self, keys: Array, missing: Array) -> Array:
        """The ids of values given as keys; `missing` says where there is none."""
        unseen = self.table.unseen
        if self._keys is not None:
            ids = self._keys.find(keys, unseen)
        else:
            assert self.buckets is not None, "a table without dictionary has buckets"
            ids = self.buckets[self._bucket(keys)]
        if missing.any():
            ids[missing] = unseen if self.table.missing is None else self.table.missing
        return ids

    def encode(self, values: Sequence[str | int | None]) -> Array:
        """The ids of raw values: strings, or whole numbers where the table has those.

        What is not a value of the table's kind is an error, by the rule that `prepare` goes by.

        Args:
            values: Raw values as they stand in the log; None or empty text where there is none.
        """
        assert self._kind is not None, "a table without dictionary has the kind of its buckets"
        try:
            keys, missing = raw_keys(values, self._kind)
        except DataError as error:
            raise DataError(
                f"Table {self.table.name!r} has {self._kind} values, but {error}."
            ) from None
        return self.ids(keys, missing)


def is_narrow(table: Table, dictionary: Dictionary) -> bool:
    """Whether keys and ids all lie below 2^32 - 1, so that a lookup takes half the memory."""
    if dictionary.kind == "text" or table.rows >= 2**32 - 1:
        return False
    values = dictionary.values
    return dictionary.kind == "hex" or (
        len(values) > 0 and int(values.min()) >= 0 and int(values.max()) < 2**32 - 1
    )


def dictionary_keys(dictionary: Dictionary, start: int, stop: int) -> Array:
    """The keys of some values of a dictionary."""
    if dictionary.offsets is None:
        return dictionary.values[start:stop]
    offsets = dictionary.offsets[start : stop + 1]
    text = dictionary.values[offsets[0] : offsets[-1]].tobytes()
    return text_keys(text, np.diff(offsets))
