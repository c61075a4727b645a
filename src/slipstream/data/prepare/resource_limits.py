"""How much memory and disk a preparation may and will take."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from slipstream.errors import ConfigError, DataError

MIB = 1 << 20
_RESERVED = 224 * MIB  # Python, torch, Polars and what their allocators hold back
_LEAST = 320 * MIB


@dataclass(frozen=True)
class Memory:
    """What each step may hold, derived from the limit alone: so a resumed run cuts alike.

    Args:
        limit: The most bytes of anonymous memory in all.
    """

    limit: int

    def __post_init__(self) -> None:
        if self.limit < _LEAST:
            raise ConfigError(
                f"memory is {self.limit / MIB:.0f} MiB; preparation needs at least "
                f"{_LEAST // MIB} MiB."
            )

    @property
    def work(self) -> int:
        """Bytes for everything but what is loaded anyway."""
        return self.limit - _RESERVED

    @property
    def block(self) -> int:
        """Bytes of text to parse at once; parsed they take several times as much, twice over."""
        return max(MIB // 4, min(16 * MIB, self.work // 56))

    @property
    def keys(self) -> int:
        """64-bit keys to sort at once, in one thread."""
        return max(1 << 14, self.work // 128)

    def rows(self, bytes_per_row: int) -> int:
        """Rows to encode at once."""
        return max(1 << 10, min(1 << 17, self.work // 32 // max(1, bytes_per_row)))


def check_disk(out: Path, needed: int) -> None:
    """Raise an error where the disk of `out` has less room than that."""
    folder = out.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"{folder}: preparation needs about {needed / 1e9:.1f} GB of disk and "
            f"{free / 1e9:.1f} GB are free. Make room or choose a folder on another disk."
        )
