"""Sizes in bytes, as users write and read them."""

from __future__ import annotations

import re

from slipstream.errors import ConfigError

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def bytes_of(name: str, text: str) -> int:
    """The bytes that a text such as 512M or 2G means.

    Args:
        name: What the size is of, for the error.
        text: A number and a letter.

    Example:
        >>> bytes_of("memory", "1.5k")
        1536
    """
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if not found:
        raise ConfigError(f"{name} is {text!r}; write a size such as 512M or 2G.")
    return round(float(found[1]) * _UNITS[found[2]])


def size(amount: float) -> str:
    """A number of bytes in few characters.

    Example:
        >>> size(2_400_000)
        '2.4 MB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 999.5:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:,.3g} TB"
