"""The reports of a run on its way: lines in `metrics.jsonl`, progress, and trackers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NamedTuple

from torch import Tensor

from slipstream.config import Config
from slipstream.tables.plan import Plan
from slipstream.training.metrics import Scores
from slipstream.training.progress import Pace, Progress
from slipstream.training.recent import Recent
from slipstream.training.run import Lines, Run
from slipstream.training.state import Hooks, RunState
from slipstream.training.trackers import Tracker, tracker

_REPORTS = 100  # lines of metrics.jsonl about training; a plot would not show more
_RECENT = 1 << 16
_PREFIX = "recent."
_MAX_PENDING = 8  # metrics that a thread computes at once: each keeps the last batches in memory


def report_every(batch_size: int, total: int) -> int:
    """Examples from one line about training to the next, in a run of `total` examples."""
    return max(batch_size, total // _REPORTS)


class _DueReport(NamedTuple):
    """A report that is still to be written.

    Args:
        step: The last step that it covers.
        line: Its line, without metrics.
        progress: The same for the caller.
    """

    step: int
    line: dict[str, Any]
    progress: Progress


class Reports:
    """Writes the reports of a run in the order of their steps.

    A GPU is still at work on the steps of a report when it is due, and the AUC of the last examples
    takes as long as several steps. So training does not wait: once the last step of a report has
    finished, a thread computes its metrics. The report is written when they are there, or before
    anything that follows it.

    Args:
        run: The run's folder.
        hooks: Receive progress, messages and lines.
        in_thread: Whether a thread computes metrics.
        stack: Closes files and threads.
    """

    def __init__(self, run: Run, hooks: Hooks, *, in_thread: bool, stack: ExitStack) -> None:
        self._run, self._hooks, self._stack = run, hooks, stack
        self._recent, self._pace = Recent(_RECENT), Pace()
        self._trackers: dict[str, Tracker] = {}
        self._last: Progress | None = None
        self._due: deque[_DueReport] = deque()
        self._scores: dict[int, Future[Scores]] = {}  # by the last step that they cover
        self._pool = None
        if in_thread:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="slipstream-report")
            stack.callback(self._pool.shutdown)

    def open(self, length: int, config: Config, position: int) -> None:
        """Start or continue `metrics.jsonl`, and open the trackers.

        Args:
            length: Bytes of the file to keep.
            config: The configuration of the run, which names the trackers.
            position: The position of the run.
        """
        folder = self._run.folder
        mapping = config.to_mapping()
        self._trackers = {
            name: tracker(name)(folder, mapping, position) for name in config.log.trackers
        }
        self._lines = Lines(folder, length)
        self._stack.callback(self._close_trackers)
        self._stack.callback(self._lines.close)
        self._stack.callback(self._write_complete)
        if self._lines.missing:
            self._hooks.on_message(
                "metrics.jsonl has lost lines since the checkpoint; they stay lost."
            )

    def add(self, plan: Plan, logits: Tensor, *, due: bool = False) -> None:
        """Add the predictions of a batch before its update; `due` if a report follows it."""
        n = plan.n_valid
        if self._pool is None:
            self._recent.add(logits[:n], plan.labels[:n], plan.weight[:n])
            return
        self._recent.add_later(logits, plan.labels, plan.weight, n)
        if due:
            self._scores[plan.step] = self._compute()

    def add_progress(self, state: RunState, *, complete: bool = True) -> None:
        """Add a report of the run's progress.

        Args:
            state: The state of the run.
            complete: Whether the results of all steps are there; else the report waits for them.
        """
        speed = self._pace.rate(state.position, state.train_seconds)
        progress = Progress("train", state.position, state.total, speed)
        if complete and state.step not in self._scores:
            self._scores[state.step] = self._compute()
        self._due.append(_DueReport(state.step, state.line(), progress))
        if self._pool is None:
            self.write_due()

    def write_due(self, *, wait: bool = True) -> None:
        """Write the reports that are due and whose metrics are there; or wait for all."""
        while self._due:
            scores = self._scores.get(self._due[0].step)
            late = len(self._scores) > _MAX_PENDING
            if not wait and (scores is None or not (late or scores.done())):
                return
            assert scores is not None, "the results of all steps are there before a wait"
            self._last = self._write_first()
            self._hooks.on_progress(self._last)

    def _write_first(self) -> Progress:
        """Write the first report that is due."""
        due = self._due.popleft()
        scores = self._scores.pop(due.step).result()
        self._write_line(due.line | scores)
        return replace(due.progress, scores=scores)

    def _write_complete(self) -> None:
        """Write the reports of finished steps, which show what happened before an error."""
        while self._due and self._due[0].step in self._scores:
            self._write_first()

    def write(self, line: Mapping[str, Any]) -> None:
        """Write a line behind those that are due before it."""
        self.write_due()
        self._write_line(line)

    def _write_line(self, line: Mapping[str, Any]) -> None:
        """Write a line of metrics, and pass it to the caller and to the trackers."""
        self._lines.write(line)
        self._hooks.on_metrics(line)
        for name in list(self._trackers):
            self._try_tracker(name, lambda each: each.log(line))

    def _try_tracker(self, name: str, action: Callable[[Tracker], None]) -> None:
        """Use a tracker; a run continues without a tracker that fails."""
        try:
            action(self._trackers[name])
        except Exception as error:
            del self._trackers[name]
            self._hooks.on_message(
                f"The tracker {name} has failed and is not used any more: {error}"
            )

    def _close_trackers(self) -> None:
        for name in list(self._trackers):
            self._try_tracker(name, lambda each: each.close())

    def repeat_last(self) -> None:
        """Report the last progress again, after that of an evaluation."""
        if self._last is not None:
            self._hooks.on_progress(self._last)

    def flush(self) -> int:
        """Write everything to the disk; returns the length of `metrics.jsonl`."""
        self.write_due()
        return self._lines.flush()

    def state_dict(self) -> dict[str, Tensor]:
        """The last predictions, for a checkpoint."""
        return {f"{_PREFIX}{name}": value for name, value in self._recent.state_dict().items()}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the last predictions from the tensors of a checkpoint."""
        self._recent.load_state_dict(
            {n.removeprefix(_PREFIX): v for n, v in tensors.items() if n.startswith(_PREFIX)}
        )

    def _compute(self) -> Future[Scores]:
        """The metrics of the last examples."""
        if self._pool is not None:
            return self._pool.submit(self._recent.copy().result)
        scores: Future[Scores] = Future()
        scores.set_result(self._recent.result())
        return scores
