"""Many small measurements side by side, written down one by one: stopped, they go on from there.

A measurement is a mapping that JSON can hold. What came of it is a line in a file, beside the
measurement itself and the code that made it; results of other code are left aside, not mixed in.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

Task = dict[str, Any]
Outcome = dict[str, Any]


class Ledger:
    """The outcomes in a file.

    Args:
        path: The file, one JSON mapping a line; it need not be there yet.
        code: Names the code that measures: outcomes of other code do not count.
    """

    def __init__(self, path: Path, code: str) -> None:
        self.path, self.code = path, code
        self._found: dict[str, tuple[Task, Outcome]] = {}
        self.aside = 0
        self._mend = ""  # ends a line that was only half written
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        for line in text.splitlines(keepends=True):
            if not line.endswith("\n"):
                self._mend = "\n"
                continue
            try:
                one = json.loads(line)
            except ValueError:  # a half line, ended
                continue
            if one["code"] == code:
                self._found[_key(one["task"])] = one["task"], one["outcome"]
            else:
                self.aside += 1

    def __contains__(self, task: Task) -> bool:
        return _key(task) in self._found

    def add(self, task: Task, outcome: Outcome) -> None:
        """Write an outcome down."""
        self._found[_key(task)] = task, outcome
        line = json.dumps({"code": self.code, "task": task, "outcome": outcome})
        with self.path.open("a", encoding="utf-8") as file:
            file.write(self._mend + line + "\n")
        self._mend = ""

    def all(self) -> list[tuple[Task, Outcome]]:
        """What has been measured."""
        return list(self._found.values())


def last_code(path: Path) -> str:
    """The code that made the last outcome in a file."""
    codes = re.findall(r'^\{"code": "([^"]*)".*\}$', path.read_text(encoding="utf-8"), re.MULTILINE)
    return codes[-1] if codes else ""


def code_of(*places: Path) -> str:
    """A short text that changes with some Python files, or all that are in some folders."""
    digest = hashlib.sha256()
    for place in places:
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def work_off(
    ledger: Ledger,
    tasks: Iterable[Task],
    measure: Callable[[Task], Outcome],
    *,
    jobs: int = 1,
    until: float = float("inf"),
    wanted: Callable[[Task], bool] = lambda _: True,
    tell: Callable[[Task, Outcome, int], None] = lambda *_: None,
) -> int:
    """Measure what has not been measured, in order; what fails is told and left out.

    Args:
        ledger: Where outcomes go.
        tasks: What to measure; those that matter most first.
        measure: Measures one; a function of a module, so that other processes find it.
        jobs: How many at once, each in a process with one thread.
        until: No measurement begins after this time, by `time.monotonic`.
        wanted: Asked when a task's turn comes: what is known by then may make it idle.
        tell: Told of each outcome, and how many tasks have not begun.

    Returns:
        How many tasks were left when the time was up.
    """
    left = [task for task in tasks if task not in ledger]
    left.reverse()

    def take() -> Task | None:
        while left and time.monotonic() < until:
            task = left.pop()
            if wanted(task):
                return task
        return None

    def note(task: Task, result: Callable[[], Outcome]) -> None:
        try:
            outcome = result()
        except BrokenProcessPool:
            raise
        except Exception as error:  # the others are none the worse for it
            print(f"{_key(task)}\nfailed: {error}", file=sys.stderr, flush=True)
            return
        ledger.add(task, outcome)
        tell(task, outcome, len(left))

    if jobs == 1:
        while (task := take()) is not None:
            note(task, partial(measure, task))
        return len(left)
    os.environ["OMP_NUM_THREADS"] = "1"  # for the processes to come
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        busy: dict[Future[Outcome], Task] = {}
        try:
            while True:
                while len(busy) < jobs and (task := take()) is not None:
                    busy[pool.submit(measure, task)] = task
                if not busy:
                    return len(left)
                for done in wait(busy, return_when=FIRST_COMPLETED).done:
                    note(busy.pop(done), done.result)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _key(task: Task) -> str:
    return json.dumps(task, sort_keys=True)
