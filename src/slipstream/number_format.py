"""Numbers as short texts, and sizes as users write them: for terminals, pages and messages."""

from __future__ import annotations

import math
import re

from slipstream.errors import ConfigError

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


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
    digits = f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"
    return f"{digits}{suffix}".replace("-", "−")


def log_part(start: int, stop: int, examples: int) -> str:
    """The part of a log that a run trains on, in words.

    Example:
        >>> log_part(250, 1000, 1000), log_part(0, 1000, 1000)
        ('examples 250 to 1,000 of 1,000 (75%)', 'all 1,000 examples')
    """
    if stop - start == examples:
        return f"all {examples:,} examples"
    share = 100 * (stop - start) / examples
    return f"examples {start:,} to {stop:,} of {examples:,} ({share:.3g}%)"


def size(value: float) -> str:
    """An amount of memory.

    Example:
        >>> size(0), size(65.3), size(3 << 20), size(5000 << 40)
        ('0 B', '65.3 B', '3 MiB', '5,000 TiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 999.5 or unit == "TiB":
            break
        value /= 1024
    return f"{value:,.0f} {unit}" if abs(value) >= 999.5 else f"{value:.3g} {unit}"


def size_setting(amount: int) -> str:
    """A size for a setting, rounded up to a text that `parse_size` reads.

    Example:
        >>> size_setting(100_000_000), size_setting(77)
        ('96MiB', '77B')
    """
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if amount >= 10 * unit:
            return f"{-(-amount // unit)}{name}"
    return f"{amount}B"


def parse_size(text: str) -> int | None:
    """The bytes that a text such as 512M, 2G or 1.5GiB means; None if it is not a size.

    Example:
        >>> parse_size("1.5k"), parse_size("2 GiB"), parse_size("much")
        (1536, 2147483648, None)
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    return None if match is None else round(float(match[1]) * _UNITS[match[2]])


def parse_size_option(name: str, text: str) -> int:
    """The bytes that the text of an option means; an error that names the option otherwise."""
    amount = parse_size(text)
    if amount is None:
        raise ConfigError(f"{name} is {text!r}. Write a size such as 512M or 2G.")
    return amount


def duration(seconds: float) -> str:
    """A time in two units at most.

    Example:
        >>> duration(42.3), duration(150), duration(7500), duration(200_000)
        ('42 s', '2 min 30 s', '2 h 5 min', '2 d 7 h')
    """
    if not seconds < 100 * 86400:
        return "over 100 d"
    whole = int(seconds)
    for name, part_name, unit, part in (("d", "h", 86400, 3600), ("h", "min", 3600, 60)):
        if whole >= unit:
            return f"{whole // unit} {name} {whole % unit // part} {part_name}"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


def signed(value: float, digits: int, *, plus: bool = True) -> str:
    """A difference; a very small one shows its first digits instead of zeros.

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
