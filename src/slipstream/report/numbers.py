"""Numbers in few characters."""

from __future__ import annotations

import math


def compact(value: float) -> str:
    """Three digits, and a letter for thousands and more.

    Example:
        >>> compact(12_345), compact(0.0421), compact(0), compact(999.9)
        ('12.3 k', '0.0421', '0', '1 k')
    """
    for suffix in ("", " k", " M", " G", " T"):
        if abs(value) < 999.5 or suffix == " T":
            break
        value /= 1000
    return f"{value:.3g}{suffix}".replace("-", "−")


def size(value: float) -> str:
    """An amount of memory.

    Example:
        >>> size(0), size(65.3), size(3 << 20)
        ('0 B', '65.3 B', '3 MiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1000:
            return f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.3g} TiB"


def signed(value: float, digits: int, *, plus: bool = True) -> str:
    """A difference; one that would round to nothing shows its first digits instead.

    Example:
        >>> signed(-0.01234, 4), signed(0.0000021, 4), signed(0.0, 4)
        ('−0.0123', '+2.1e−06', '0')
    """
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    small = abs(value) < 0.5 * 10**-digits
    text = f"{value:+.1e}" if small else f"{value:+.{digits}f}"
    return (text if plus else text.removeprefix("+")).replace("-", "−")


def decimal(value: float) -> str:
    """A measure such as an AUC, on an axis."""
    return f"{value:.4g}".replace("-", "−")


def percent(share: float) -> str:
    """A share, on an axis.

    Example:
        >>> percent(0.25), percent(0.0001)
        ('25 %', '0.01 %')
    """
    return f"{share * 100:.3g} %"
