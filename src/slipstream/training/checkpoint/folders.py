"""The folders of checkpoints, side by side: a name of twelve digits belongs to a finished one.

`<step>.partial` is being written or removed and counts for nothing. `<step>.replaced` was saved
before at the same step and counts until the new one has its name.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

_NAME = re.compile(r"(\d{12})(\.replaced)?")


def path_of(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step has its place."""
    return folder / f"{step:012d}"


def partial(path: Path) -> Path:
    """Where a checkpoint is while it is written, or removed."""
    return path.with_name(path.name[:12] + ".partial")


def finished(folder: Path) -> list[tuple[int, Path]]:
    """The finished checkpoints, newest first."""
    if not folder.is_dir():
        return []
    found = [(_NAME.fullmatch(path.name), path) for path in folder.iterdir() if path.is_dir()]
    matches = [(match, path) for match, path in found if match]
    matches.sort(key=lambda one: (-int(one[0][1]), bool(one[0][2])))
    return [(int(match[1]), path) for match, path in matches]


def tidy(folder: Path) -> None:
    """Bring into order what a process that was killed left. For who has locked the folder."""
    for path in list(folder.iterdir()):
        if path.name.endswith(".partial"):
            shutil.rmtree(path)
    for step, path in finished(folder):
        if path.name.endswith(".replaced"):
            if path_of(folder, step).exists():
                remove(path)
            else:
                path.rename(path_of(folder, step))


def put_in_place(folder: Path, step: int) -> None:
    """Give a checkpoint, complete and on the disk, its name."""
    path = path_of(folder, step)
    if path.exists():
        path.rename(path.with_name(path.name + ".replaced"))
    partial(path).rename(path)
    flush_folder(folder)


def retire(folder: Path, step: int, keep: int) -> None:
    """Leave `step` and those before it, `keep` in all; one that cannot be removed is an OSError.

    A later one is left from a future that the run has gone back behind: the newest would no longer
    be what was saved last.
    """
    others = [one for one in finished(folder) if one[1] != path_of(folder, step)]
    earlier = [path for number, path in others if number < step]
    later = [path for number, path in others if number >= step]
    for path in (*later, *earlier[keep - 1 :]):
        remove(path)


def remove(path: Path) -> None:
    """Remove a checkpoint; it has lost its name before it loses its first file."""
    aside = partial(path)
    if aside.exists():
        shutil.rmtree(aside)
    path.rename(aside)
    flush_folder(path.parent)
    shutil.rmtree(aside)


def flush_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    if os.name == "nt":  # folders cannot be opened there, and need not be
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
