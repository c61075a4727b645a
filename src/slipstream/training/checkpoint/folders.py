"""The folders of checkpoints, side by side; a finished checkpoint is named by twelve digits.

`<step>.partial` is being written or removed, and is ignored. `<step>.replaced` was saved earlier at
the same step, and is valid until the new checkpoint has its name.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

_NAME = re.compile(r"\d{12}(\.replaced)?")


def path_of(folder: Path, step: int) -> Path:
    """The folder of the finished checkpoint of a step."""
    return folder / f"{step:012d}"


def partial(path: Path) -> Path:
    """The folder of a checkpoint while it is written or removed."""
    return path.with_name(path.name[:12] + ".partial")


def finished(folder: Path) -> list[tuple[int, Path]]:
    """The finished checkpoints, newest first."""
    if not folder.is_dir():
        return []
    paths = [path for path in folder.iterdir() if _NAME.fullmatch(path.name) and path.is_dir()]
    paths.sort(key=lambda path: (-int(path.name[:12]), path.name))  # `.replaced` comes second
    return [(int(path.name[:12]), path) for path in paths]


def tidy(folder: Path) -> None:
    """Tidy up after a process that was killed; the caller has locked the folder."""
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
    """Rename a checkpoint, whose files are all on the disk, to its final name."""
    path = path_of(folder, step)
    if path.exists():
        path.rename(path.with_name(path.name + ".replaced"))
    partial(path).rename(path)
    flush_folder(folder)


def retire(folder: Path, step: int, keep: int) -> None:
    """Remove all checkpoints but `step` and the `keep - 1` before it.

    A later checkpoint comes from steps that the run has gone back behind. It must go too: else the
    newest checkpoint would not be the last one that was saved. Raises OSError if one cannot go.
    """
    newest = path_of(folder, step)
    earlier = [path for number, path in finished(folder) if number < step]
    later = [path for number, path in finished(folder) if number >= step and path != newest]
    for path in (*later, *earlier[keep - 1 :]):
        remove(path)


def remove(path: Path) -> None:
    """Remove a checkpoint: first rename it to `.partial`, then delete its files."""
    partial_path = partial(path)
    if partial_path.exists():
        shutil.rmtree(partial_path)
    path.rename(partial_path)
    flush_folder(path.parent)
    shutil.rmtree(partial_path)


def flush_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    if os.name == "nt":  # folders cannot be opened there, and need not be
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
