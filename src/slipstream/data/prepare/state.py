"""The finished steps of a preparation: enough to go on after it was killed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from slipstream.data.formats.spec import LogSpec
from slipstream.data.layout import MANIFEST
from slipstream.data.manifest import versions
from slipstream.data.prepare.options import Options
from slipstream.errors import DataError

T = TypeVar("T")
_STATE = "state.json"


class State:
    """The folder of an unfinished preparation, and a note of the steps that are done.

    The note is replaced as a whole after each step. A process that is killed leaves the note before
    the step or the one after it, and the output of a step that is not noted is written again. After
    a reboot, for another command or for changed inputs, everything starts anew.
    """

    def __init__(self, work: Path, fingerprint: str) -> None:
        self.work = work
        self.notes: dict[str, Any] = self.peek(work, fingerprint)
        self.resumed = bool(self.notes)
        if not self.resumed:
            _check_ours(work)
            work.mkdir(parents=True, exist_ok=True)
            self._clear()
            self.notes = {"fingerprint": fingerprint, "boot": _boot()}
            self.save()

    @classmethod
    def peek(cls, work: Path, fingerprint: str) -> dict[str, Any]:
        """The note in a folder for this fingerprint; empty if it is for another one."""
        try:
            notes = json.loads((work / _STATE).read_bytes())
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return {}
        same = isinstance(notes, dict) and fingerprint in (
            notes.get("fingerprint"),
            notes.get("once_named"),
        )
        boot = _boot()
        return notes if same and boot is not None and notes.get("boot") == boot else {}

    def save(self) -> None:
        """Replace the note."""
        new = self.work / (_STATE + ".new")
        new.write_text(json.dumps(self.notes))
        new.replace(self.work / _STATE)

    def once(self, step: str, do: Callable[[], T]) -> T:
        """The result of `do` (as JSON), which is not called again once its step is noted."""
        done = self.notes.setdefault("done", {})
        if step not in done:
            done[step] = do()
            self.save()
        result: T = done[step]
        return result

    def remove(self) -> None:
        """Remove the folder, as far as the system lets us."""
        with contextlib.suppress(OSError):
            self._clear()
            self.work.rmdir()

    def _clear(self) -> None:
        """Empty the folder; the note goes last, so that a killed process leaves it."""
        for path in self.work.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != _STATE:
                path.unlink()
        (self.work / _STATE).unlink(missing_ok=True)


def _check_ours(work: Path) -> None:
    """Raise an error where what lies in the way was not left by a preparation."""
    if work.is_dir():
        names = {path.name for path in work.iterdir()}
        if not names or names & {_STATE, _STATE + ".new"}:
            return
    elif not work.exists():
        return
    raise DataError(
        f"{work} is needed to work in, and what is there was not left by a preparation. Move or "
        "remove it, or choose another folder to make."
    )


def fingerprint(
    spec: LogSpec, inputs: Sequence[Path], options: Options, base: Path | None = None
) -> str:
    """A digest of everything that decides the result: options, inputs as they are, versions.

    `base` is the data set whose ids are used, if it is not where the options say.
    """
    import polars

    files = []
    for path in inputs:
        status = path.stat()
        files.append([str(path.absolute()), status.st_size, status.st_mtime_ns])
    if options.dictionary is not None:
        status = ((base or options.dictionary) / MANIFEST).stat()
        files.append([str(options.dictionary.absolute()), status.st_size, status.st_mtime_ns])
    everything = [asdict(spec), asdict(options), files, versions(), polars.__version__]
    return hashlib.sha256(json.dumps(everything, default=str).encode()).hexdigest()


def _boot() -> str | None:
    """Identifies the current boot: writes from before it may be lost."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None if os.name == "posix" else ""
