"""Trains the runs of a comparison one after the other, each in its own process.

In one process the first run would compile the kernels for all others. In its own process each run
starts alike, and its memory is measured alone.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from slipstream.analyze.compare.folder import Folder
from slipstream.analyze.compare.grid import PlannedRun

State = Literal["ended before", "running", "ended", "failed", "stopped"]
_POLL_SECONDS = 0.25
_TAIL_BYTES = 1 << 12


@dataclass(frozen=True)
class RunEvent:
    """A change in the state of a run."""

    run: PlannedRun
    state: State
    line: dict[str, Any] | None = None  # its last report, while it is running
    error: str = ""
    seconds: float = 0.0  # how long its process has run


OnEvent = Callable[[RunEvent], None]


def run_all(
    folder: Folder,
    runs: Sequence[PlannedRun],
    on_event: OnEvent,
    keep_checkpoints: bool = False,
    seconds: float | None = None,
) -> list[RunEvent]:
    """Train the runs that have not ended; on Ctrl-C the current run saves its state first.

    Returns:
        An event for each run that failed.
    """
    failed: list[RunEvent] = []
    spent: list[float] = []
    begin = time.monotonic()
    for number, run in enumerate(runs):
        if seconds is not None and spent and run.config.seed != runs[number - 1].config.seed:
            rest = [other for other in runs[number:] if other.config.seed == run.config.seed]
            needed = sum(not folder.ended(other) for other in rest) * sum(spent) / len(spent)
            if time.monotonic() - begin + needed > seconds:
                break
        if folder.ended(run):
            on_event(RunEvent(run, "ended before"))
            continue
        event = _train(folder, run, on_event)
        spent.append(event.seconds)
        on_event(event)
        if event.state == "failed":
            failed.append(event)
        elif not keep_checkpoints:  # a comparison needs the numbers of a run only
            shutil.rmtree(folder.run(run) / "checkpoints", ignore_errors=True)
    return failed


def _train(folder: Folder, run: PlannedRun, on_event: OnEvent) -> RunEvent:
    command = [sys.executable, "-m", "slipstream", "train", "--out", str(folder.run(run))]
    if folder.begun(run):
        folder.note_resumed(run)
        command += ["--resume"]
    else:
        command += ["--config", str(folder.config(run))]
    begin = time.monotonic()
    with folder.log(run).open("ab") as log:
        # In its own session, so that Ctrl-C reaches it only through this process, and once.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            while process.poll() is None:
                seconds = time.monotonic() - begin
                on_event(RunEvent(run, "running", _last_report(folder.run(run)), seconds=seconds))
                time.sleep(_POLL_SECONDS)
        except BaseException:
            _stop(process)
            if not folder.ended(run):
                on_event(RunEvent(run, "stopped", seconds=time.monotonic() - begin))
            raise
    seconds = time.monotonic() - begin
    if folder.ended(run):
        return RunEvent(run, "ended", seconds=seconds)
    error = _error_message(folder.log(run), process.returncode)
    return RunEvent(run, "failed", error=error, seconds=seconds)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Let a training save and stop, and wait for it; a second Ctrl-C stops it at once."""
    while process.poll() is None:
        try:
            process.send_signal(signal.SIGINT)
            process.wait()
        except KeyboardInterrupt:
            continue


def _last_report(folder: Path) -> dict[str, Any] | None:
    """The last line of kind training that a run has written."""
    path = folder / "metrics.jsonl"
    if not path.is_file():
        return None
    with path.open("rb") as file:
        start = max(0, path.stat().st_size - _TAIL_BYTES)
        file.seek(start)
        whole_lines = file.read().split(b"\n")[1 if start else 0 : -1]
    reports: list[dict[str, Any]] = [json.loads(line) for line in whole_lines]
    return next((line for line in reversed(reports) if line.get("kind") == "training"), None)


def _error_message(log: Path, status: int) -> str:
    """The sentence that a training printed when it failed."""
    begin = "slipstream: "
    for line in reversed(log.read_text(errors="replace").splitlines()):
        if line.startswith(begin):
            return line.removeprefix(begin)
    return f"It ended with status {status}; see {log}."
