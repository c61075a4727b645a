"""Atomic writes: a file or folder gets its name only when it is whole, and has one writer."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from slipstream.data.layout import MANIFEST
from slipstream.data.manifest import FORMAT
from slipstream.errors import DataError


@contextlib.contextmanager
def partial_path(out: Path) -> Iterator[Path]:
    """Lock the path `OUT.partial`, at which `out` is written until it is whole, and return it.

    The system releases the lock of a process that died, so its partial files block nobody.
    """
    if not out.name:
        raise DataError(f"{out} cannot be replaced. Choose a folder or file inside it.")
    if out.parent.exists() and not out.parent.is_dir():
        raise DataError(f"{out.parent} is not a folder, so nothing can be made inside it.")
    work = out.with_name(out.name + ".partial")
    work.parent.mkdir(parents=True, exist_ok=True)
    path = work.with_name(work.name + ".lock")
    lock = try_lock(path)
    if lock is None:
        raise DataError(f"Another process is writing {work}. Wait for it to end.")
    try:
        _recover(out)
        yield work
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        lock.close()


def check_replaceable(out: Path, force: bool) -> None:
    """Raise an error where a data set at `out` would overwrite anything else."""
    if out == Path.cwd():
        raise DataError(f"{out} is the current folder. Name a new folder inside it.")
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    foreign = _foreign_content(out)
    if foreign:
        raise DataError(f"{out} {foreign}, so it is left alone. Choose another folder.")
    if not force:
        raise DataError(
            f"{out} already holds a data set. Choose another folder, or add --force (in Python, "
            "force=True)."
        )


def publish(work: Path, out: Path, force: bool) -> None:
    """Give a finished data set its name, and remove the one that had it before.

    The caller has entered `partial_path(out)`.
    """
    check_replaceable(out, force)
    if not out.exists():
        work.rename(out)
        return
    out.rename(_old(out))
    try:
        work.rename(out)
    finally:
        _recover(out)


def _old(out: Path) -> Path:
    """The path of the old data set while the new one takes its name."""
    return out.with_name(out.name + ".partial.old")


def _recover(out: Path) -> None:
    """Put an old data set back if the new one never took its name; else remove it."""
    if _old(out).exists():
        if out.exists():
            shutil.rmtree(_old(out))
        else:
            _old(out).rename(out)


def _foreign_content(out: Path) -> str | None:
    """The reason why a path is not a data set and nothing else; None if it is."""
    try:
        manifest = json.loads((out / MANIFEST).read_bytes())
        files = manifest["files"] if manifest["format"] == FORMAT else None
    except (OSError, ValueError, KeyError, TypeError):
        files = None
    if files is None:
        return "exists and is not a packed data set"
    for path in out.rglob("*"):
        name = path.relative_to(out).as_posix()
        if path.is_file() and name not in files and name != MANIFEST:
            return f"also holds {name}, which is not part of its data set"
    return None


def try_lock(path: Path) -> IO[bytes] | None:
    """An open file that is locked for this process; None if another process has the lock.

    The owner unlinks and closes the file in the end; if the process dies, the lock ends with it.
    """
    while True:
        file = path.open("ab")
        if not _lock_file(file):
            file.close()
            return None
        # Its last owner may have removed the file between our opening and locking it.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                return file
        file.close()


def _lock_file(file: IO[bytes]) -> bool:
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
