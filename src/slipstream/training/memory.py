"""How much memory this process has taken for itself, and that it keeps it."""

from __future__ import annotations

import ctypes
import sys
import threading
from pathlib import Path

_STATUS = Path("/proc/self/status")
# Names of mallopt's parameters in malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_ARENAS = 4  # enough: few threads ask for memory at the same time
_LARGE = 1 << 30
_EVERY = 0.02


def keep_memory() -> bool:
    """Let the C library keep freed memory for the next step instead of giving it back.

    Every step allocates the same activations. Given back in between, each of their pages is
    fetched anew and cleared, which takes a quarter of a step. What is kept is kept by arena, and
    each thread may get another one: with as many as there are by default, every training of a
    process would keep some more. Only where glibc is at work: says whether it is.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    mallopt(_ARENA_MAX, _ARENAS)
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
    """The most anonymous memory that was seen, by a thread that looks every few milliseconds.

    The system counts the peak of all memory only, mapped files with it.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="peak", daemon=True)
        self._thread.start()

    def look(self) -> None:
        """Note how much there is now."""
        self.bytes = max(self.bytes, anonymous())

    def close(self) -> None:
        """Look for the last time."""
        self._stop.set()
        self._thread.join()
        self.look()

    def _watch(self) -> None:
        while not self._stop.wait(_EVERY):
            self.look()
