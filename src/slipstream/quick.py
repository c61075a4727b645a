"""Makes frozen dataclasses as fast as dictionaries, where thousands are made in a second."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def quick(kind: type[T], **fields: Any) -> T:
    """An object of a frozen dataclass: its own `__init__` sets one field after the other.

    Args:
        kind: The dataclass.
        fields: All fields but those whose default is a plain value.

    Example:
        >>> from slipstream.data.layout import Field
        >>> quick(Field, dtype="f4") == Field("f4")
        True
    """
    record = object.__new__(kind)
    record.__dict__.update(fields)
    return record
