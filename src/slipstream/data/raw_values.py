"""What a raw value of each kind looks like: one rule for logs that are prepared and for values that
are encoded later, so that the same value always has the same id.

None and empty text are missing values. Numbers are written in one way only: `007` could not be told
from `7` later.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from slipstream.arrays import Array
from slipstream.data.hashing import keys_of_text
from slipstream.data.schema import ValueKind
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
        return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)
    if not re.fullmatch(PATTERNS[kind], text):
        return False
    return kind == "hex" or (len(text) <= 20 and -(2**63) <= int(text) < 2**63)
