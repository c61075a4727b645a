"""Runs the runs of a comparison, one after the other, each in a process of its own.

In one process the first run would pay for what all others find done: compiled kernels, a warm
allocator. On its own each starts alike, and its memory is its own.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from slipstream.compare.folder import Folder
from slipstream.compare.grid import PlannedRun

State = Literal["found", "running", "ended", "failed", "stopped"]
_EVERY = 0.25
_TAIL = 1 << 12


@dataclass(frozen=True)
class Event:
    """Something to tell about a run.

    Args:
        run: Which run.
        state: found: it had ended before; running; ended; failed; stopped.
        line: The last that it reported, while it is running.
        why: What it said when it failed.
        seconds: How long its process has been at work.
    """

    run: PlannedRun
    state: State
    line: dict[str, Any] | None = None
    why: str = ""
    seconds: float = 0.0


Tell = Callable[[Event], None]


def run_all(
    folder: Folder,
    runs: Sequence[PlannedRun],
    tell: Tell,
    *,
    keep_checkpoints: bool = False,
    seconds: float | None = None,
) -> list[Event]:
    """Train what has not been trained; Ctrl-C lets the run at work save, and goes up.

    Args:
        folder: Where.
        runs: In this order.
        tell: Told what happens.
        keep_checkpoints: Whether the weights of runs stay after their end.
        seconds: Begin no further seed that would not be through within this time.

    Returns:
        What became of those that failed.
    """
    failed, spent, begun = [], [0.0], time.monotonic()
    for number, one in enumerate(runs):
        if seconds is not None and number and one.config.seed != runs[number - 1].config.seed:
            rest = [run for run in runs[number:] if run.config.seed == one.config.seed]
            needed = sum(not folder.ended(run) for run in rest) * sum(spent) / len(spent)
            if time.monotonic() - begun + needed > seconds:
                break
        if folder.ended(one):
            tell(Event(one, "found"))
            continue
        event = _run(folder, one, tell)
        spent = [*(s for s in spent if s), event.seconds]
        tell(event)
        if event.state == "failed":
            failed.append(event)
        elif not keep_checkpoints:
            folder.forget_checkpoints(one)
    return failed


def _run(folder: Folder, one: PlannedRun, tell: Tell) -> Event:
    command = [sys.executable, "-m", "slipstream", "train", "--out", str(folder.run(one))]
    if folder.begun(one):
        folder.note_resumed(one)
        command += ["--resume"]
    else:
        command += ["--config", str(folder.config(one))]
    begun = time.monotonic()
    with folder.log(one).open("ab") as log:
        # A session of its own: Ctrl-C reaches it through us only, and once.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            while process.poll() is None:
                seconds = time.monotonic() - begun
                tell(Event(one, "running", _last_line(folder.run(one)), seconds=seconds))
                time.sleep(_EVERY)
        except BaseException:
            _stop(process)
            if not folder.ended(one):
                tell(Event(one, "stopped", seconds=time.monotonic() - begun))
            raise
    seconds = time.monotonic() - begun
    if folder.ended(one):
        return Event(one, "ended", seconds=seconds)
    return Event(one, "failed", why=_said(folder.log(one), process.returncode), seconds=seconds)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask a training to save and stop, and wait for it; asked again, it stops at once."""
    while process.poll() is None:
        try:
            process.send_signal(signal.SIGINT)
            process.wait()
        except KeyboardInterrupt:
            continue


def _last_line(run: Path) -> dict[str, Any] | None:
    path = run / "metrics.jsonl"
    if not path.is_file():
        return None
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        whole = file.read().split(b"\n")[1 if file.tell() > _TAIL else 0 : -1]
    for line in reversed(whole):
        made = json.loads(line)
        if made.get("kind") == "training":
            return dict(made)
    return None


def _said(log: Path, status: int) -> str:
    """The sentence with which a training ended."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if line.startswith("slipstream: ")), None)
    if said is not None:
        return said.removeprefix("slipstream: ")
    return f"It ended with status {status}; see {log}."
