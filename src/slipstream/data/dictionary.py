"""The raw value behind each id of a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from slipstream.arrays import Array
from slipstream.data.schema import Table, ValueKind


@dataclass(frozen=True)
class Dictionary:
    """Raw values by id. The values at a table's `unseen` and `missing` ids mean nothing.

    Where a table has buckets, neither do those at their ids; the values that share them follow
    behind the last id.

    Args:
        kind: `hex` (uint32, written as 8 hex digits), `int` (int64) or `text` (UTF-8).
        values: The values; for text, the bytes of all of them one after the other.
        offsets: For text, where each value's bytes begin, and where the last one's end.

    Example:
        >>> Dictionary.of_text(["pear", "plum"]).raw(1)
        'plum'
    """

    kind: ValueKind
    values: Array
    offsets: Array | None = None

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
    """What an id stood for, in words where it is not a value: `(missing)`, `(unseen)`."""
    if buckets is not None and dictionary is not None and bool(np.any(buckets == row)):
        return "(shared)"
    if row == table.missing:
        return "(missing)"
    if row == table.unseen:
        return "(unseen)"
    return dictionary.raw(row) if dictionary else f"#{row}"
