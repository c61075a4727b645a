"""Raw values of a table: how they look, how a data set stores them, and which ids they have.

One rule for logs that are prepared and for values that are encoded later, so that the same value
always has the same id. None and empty text are missing values. Numbers are written in one way only:
`007` could not be told from `7` later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.arrays import Array
from slipstream.data.key_table import KeyTable, Make, keys_of_text, mix, text_keys
from slipstream.data.schema import Table, ValueKind
from slipstream.errors import DataError

PATTERNS: dict[ValueKind, str] = {"hex": "[0-9a-f]{8}", "int": "(?:0|-?[1-9][0-9]*)"}
EXPECTED: dict[ValueKind, str] = {
    "hex": "8 hex digits in lower case",
    "int": "a whole number as one writes it",
    "text": "text",
}
KEY_DTYPE: dict[ValueKind, np.dtype[Any]] = {
    "hex": np.dtype("<u4"),
    "int": np.dtype("<i8"),
    "text": np.dtype("<u8"),
}
_SHOWN = 60
_AT_ONCE = 1 << 18


def is_missing(value: Any) -> bool:
    """Whether there is no value."""
    return value is None or (isinstance(value, str) and value == "")


def raw_keys(values: Sequence[Any], kind: ValueKind) -> tuple[Array, Array]:
    """The key of each raw value, and where there is none; an error where one is of another kind.

    Example:
        >>> raw_keys(["7", 7, ""], "int")
        (array([7, 7, 0]), array([False, False,  True]))
    """
    missing = np.array([is_missing(value) for value in values], dtype=np.bool_)
    written = ["" if is_missing(value) else _written(value, kind) for value in values]
    if kind == "text":
        return keys_of_text(written), missing
    base = 16 if kind == "hex" else 10
    keys = [int(text, base) if text else 0 for text in written]
    return np.array(keys, dtype=KEY_DTYPE[kind]), missing


def is_unicode(text: str) -> bool:
    """Whether a string can be written as UTF-8."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def _written(value: Any, kind: ValueKind) -> str:
    """A value as it stands in a log."""
    text = value
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and kind != "hex":
        text = str(value)
    if isinstance(text, str) and _fits(text, kind):
        return text
    shown = repr(value)
    shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "..."
    raise DataError(f"{shown} is not {EXPECTED[kind]}")


def _fits(text: str, kind: ValueKind) -> bool:
    if kind == "text":
        return is_unicode(text)
    if not re.fullmatch(PATTERNS[kind], text):
        return False
    return kind == "hex" or (len(text) <= 20 and -(2**63) <= int(text) < 2**63)


@dataclass(frozen=True)
class Dictionary:
    """Raw values by id. The values at a table's `unseen` and `missing` ids mean nothing.

    Where a table has buckets, neither do those at their ids; the values that share them follow
    behind the last id.

    Example:
        >>> Dictionary.of_text(["pear", "plum"]).raw(1)
        'plum'
    """

    kind: ValueKind
    values: Array  # uint32 for hex, int64 for int; for text, the UTF-8 bytes of all values
    offsets: Array | None = None  # for text, where each value begins, and where the last one ends

    @classmethod
    def of_hex(cls, values: Array) -> Dictionary:
        """A dictionary of 8-digit hex values, given as numbers."""
        return cls("hex", np.asarray(values, dtype="<u4"))

    @classmethod
    def of_int(cls, values: Array) -> Dictionary:
        """A dictionary of whole numbers."""
        return cls("int", np.asarray(values, dtype="<i8"))

    @classmethod
    def of_text(cls, values: Iterable[str]) -> Dictionary:
        """A dictionary of strings."""
        encoded = [value.encode() for value in values]
        offsets = np.zeros(len(encoded) + 1, dtype="<i8")
        np.cumsum([len(value) for value in encoded], out=offsets[1:])
        return cls("text", np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets)

    def arrays(self) -> dict[str, Array]:
        """The arrays that make up the dictionary, by file ending."""
        if self.offsets is None:
            return {"values": self.values}
        return {"values": self.values, "offsets": self.offsets}

    def __len__(self) -> int:
        return len(self.values) if self.offsets is None else len(self.offsets) - 1

    def raw(self, row: int) -> str:
        """The raw value of one id, as it stood in the log."""
        if self.offsets is not None:
            return bytes(self.values[self.offsets[row] : self.offsets[row + 1]]).decode()
        return f"{self.values[row]:08x}" if self.kind == "hex" else str(self.values[row])


def decode(
    row: int, table: Table, dictionary: Dictionary | None, buckets: Array | None = None
) -> str:
    """The raw value of an id, or `(missing)`, `(unseen)` or `(shared)` where it has none."""
    if buckets is not None and dictionary is not None and bool(np.any(buckets == row)):
        return "(shared)"
    if row == table.missing:
        return "(missing)"
    if row == table.unseen:
        return "(unseen)"
    return dictionary.raw(row) if dictionary else f"#{row}"


class Encoder:
    """From raw values of one table to ids, by its dictionary, its hashed buckets, or both.

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
        self._kind = table.hashed if dictionary is None else dictionary.kind
        if dictionary is not None:
            self._keys = KeyTable(len(dictionary), narrow=is_narrow(table, dictionary), make=make)
            for start in range(0, len(dictionary), _AT_ONCE):
                keys = dictionary_keys(dictionary, start, min(start + _AT_ONCE, len(dictionary)))
                self._keys.add(*self._known(keys, start))

    def _known(self, keys: Array, start: int) -> tuple[Array, Array]:
        """The keys that values can have, and their ids; dictionary entries begin at `start`."""
        ids = np.arange(start, start + len(keys))
        own = np.ones(len(ids), dtype=np.bool_)
        for special in (self.table.unseen, self.table.missing):
            if special is not None:
                own &= ids != special
        if self.buckets is not None:
            own &= ~np.isin(ids, self.buckets)
            tail = ids >= self.table.rows
            ids = np.where(tail, self.buckets[self._bucket(keys)], ids)
        return keys[own], ids[own]

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

        Values are as in the log; None or empty text is a missing value. A value that is not of
        the table's kind is an error, by the same rule as in `prepare`.
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
