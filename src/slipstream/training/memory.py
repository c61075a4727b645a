"""How much memory this process has taken for itself."""

from __future__ import annotations

from pathlib import Path

_STATUS = Path("/proc/self/status")


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
