"""How much memory this process has taken for itself, and that it keeps it."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of mallopt's parameters in malloc.h
_LARGE = 1 << 30


def keep_memory() -> bool:
    """Let the C library keep freed memory for the next step instead of giving it back.

    Every step allocates the same activations. Given back in between, each of their pages is
    fetched anew and cleared, which takes a quarter of a step. Only where glibc is at work: says
    whether it is.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    # Older versions take no threshold above 32 MiB for what is mapped on its own.
    mapped = mallopt(_MMAP_THRESHOLD, _LARGE) or mallopt(_MMAP_THRESHOLD, 1 << 25)
    return bool(mapped and mallopt(_TRIM_THRESHOLD, _LARGE))


def anonymous() -> int:
    """Bytes of memory that belong to no file; 0 where the system does not say."""
    if not _STATUS.is_file():
        return 0
    for line in _STATUS.read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


class Peak:
    """The most anonymous memory seen at the moments it was asked."""

    def __init__(self) -> None:
        self.bytes = 0

    def look(self) -> None:
        """Note how much there is now."""
        self.bytes = max(self.bytes, anonymous())
