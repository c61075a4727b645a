"""Results in a file, one JSON line each: a benchmark that is stopped continues from there."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.skipping.tasks import Task

Result = dict[str, Any]


class Ledger:
    """The results in a file.

    Args:
        path: The file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._results: dict[str, tuple[Task, Result]] = {}
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        for line in text.splitlines():
            try:
                task, result = json.loads(line)
            except ValueError:  # half a line, from a run that was killed
                continue
            self._results[_key(task)] = task, result

    def __contains__(self, task: Task) -> bool:
        return _key(task) in self._results

    def add(self, task: Task, result: Result) -> None:
        """Write a result."""
        self._results[_key(task)] = task, result
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"\n{json.dumps([task, result])}")

    def results(self) -> list[tuple[Task, Result]]:
        """All results."""
        return list(self._results.values())


def run_all(
    ledger: Ledger,
    tasks: Sequence[Task],
    measure: Callable[[Task], Result],
    *,
    jobs: int = 1,
    until: float = float("inf"),
) -> int:
    """Measure tasks in their order; a task that fails is reported and left out.

    Args:
        ledger: Receives the results; tasks that it has are not measured again.
        tasks: The tasks.
        measure: Measures a task; a function of a module, so that other processes find it.
        jobs: How many tasks at once, each in a process with one thread.
        until: No task begins after this time, by `time.monotonic`.

    Returns:
        How many tasks were left when the time was up.
    """
    left = [task for task in tasks if task not in ledger]
    os.environ["OMP_NUM_THREADS"] = "1"  # for the processes to come
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        busy: dict[Future[Result], Task] = {}
        try:
            while True:
                while len(busy) < jobs and left and time.monotonic() < until:
                    task = left.pop(0)
                    busy[pool.submit(measure, task)] = task
                if not busy:
                    return len(left)
                for done in wait(busy, return_when=FIRST_COMPLETED).done:
                    task = busy.pop(done)
                    name = f"{task['setting']}, {task['rule']}, seed {task['seed']}"
                    if error := done.exception():
                        print(f"{name} failed: {error}", file=sys.stderr, flush=True)
                        continue
                    ledger.add(task, done.result())
                    print(f"{name}: {done.result()}; {len(left)} left", file=sys.stderr)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _key(task: Task) -> str:
    return json.dumps(task, sort_keys=True)
