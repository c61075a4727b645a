"""The memory of this process: its peak, and what the C library does with freed memory."""

from __future__ import annotations

import ctypes
import sys
import threading
from pathlib import Path

_STATUS = Path("/proc/self/status")
# Names of mallopt's parameters in malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_ARENAS = 4  # enough: few threads allocate memory at the same time
_LARGE = 1 << 30
_INTERVAL = 0.02


def retain_freed_memory() -> bool:
    """Configure glibc to keep freed memory for the next step instead of returning it.

    Every step allocates the same activations. If their pages were returned after a step, the
    system would have to clear them again, which takes a quarter of a step. The number of arenas is
    limited because each arena keeps its own freed memory. Returns whether this process uses glibc.
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


def anonymous_bytes() -> int:
    """Bytes of this process that belong to no file; 0 where the system does not report them."""
    if not _STATUS.is_file():
        return 0
    for line in _STATUS.read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


class MemoryPeak:
    """The peak of anonymous memory, measured by a thread every 20 ms.

    The system reports only the peak of all memory, including mapped files.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="peak", daemon=True)
        self._thread.start()

    def update(self) -> None:
        """Measure now."""
        self.bytes = max(self.bytes, anonymous_bytes())

    def close(self) -> None:
        """Measure for the last time and end the thread."""
        self._stop.set()
        self._thread.join()
        self.update()

    def _watch(self) -> None:
        while not self._stop.wait(_INTERVAL):
            self.update()
