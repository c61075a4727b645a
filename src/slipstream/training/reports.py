"""What a run reports on its way: lines in `metrics.jsonl`, and how far it is."""

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
from slipstream.training.progress import Pace, Report
from slipstream.training.recent import Recent
from slipstream.training.run import Lines, Run
from slipstream.training.state import Hooks, State
from slipstream.training.trackers import Tracker, open_trackers

_RECENT = 1 << 16
_PREFIX = "recent."
_MOST_READY = 8  # figures that are worked out beside the steps: each keeps the last batches alive


class _Due(NamedTuple):
    """A report that is still to be written.

    Args:
        step: The last step that it is about.
        line: What it says, but for its figures.
        report: The same, to be told.
    """

    step: int
    line: dict[str, Any]
    report: Report


class Reports:
    """Reports of a run, in the order of what they are about.

    The steps of a GPU are under way when a report about them is due, and the AUC of the last inputs
    takes as long as some of them. So nobody waits: when the last step of a report has said what it
    has to, a thread works out the figures, and the report is written when these are there, or
    before anything that follows it. Only who asks for more reports than can be worked out waits.

    Args:
        run: The run's folder.
        hooks: Who is told.
        beside: Whether figures are worked out beside the steps.
        stack: Closes what was opened.
    """

    def __init__(self, run: Run, hooks: Hooks, *, beside: bool, stack: ExitStack) -> None:
        self._run, self._hooks, self._stack = run, hooks, stack
        self._recent, self._pace = Recent(_RECENT), Pace()
        self._trackers: dict[str, Tracker] = {}
        self._told: Report | None = None
        self._due: deque[_Due] = deque()
        self._ready: dict[int, Future[Scores]] = {}  # figures, by the last step that is in them
        self._beside = None
        if beside:
            self._beside = ThreadPoolExecutor(1, thread_name_prefix="slipstream-report")
            stack.callback(self._beside.shutdown)

    def open(self, length: int, config: Config, position: int) -> None:
        """Begin or go on with `metrics.jsonl`, and open the trackers.

        Args:
            length: Bytes to keep of what is there.
            config: The configuration of the run, which names the trackers.
            position: Where the run stands.
        """
        folder = self._run.folder
        trackers = open_trackers(config.log.trackers, folder, config.to_mapping(), position)
        self._trackers = dict(zip(config.log.trackers, trackers, strict=True))
        self._lines = Lines(folder, length)
        self._stack.callback(self._close_trackers)
        self._stack.callback(self._lines.close)
        self._stack.callback(self._write_heard)
        if self._lines.missing:
            self._hooks.say("metrics.jsonl has lost lines since the checkpoint; they stay lost.")

    def _write_line(self, line: Mapping[str, Any]) -> None:
        """Write a line of metrics, and pass it to the caller and to the trackers."""
        self._lines.write(line)
        self._hooks.on_metrics(line)
        for name in list(self._trackers):
            self._try_tracker(name, lambda tracker: tracker.log(line))

    def _try_tracker(self, name: str, action: Callable[[Tracker], None]) -> None:
        """A run goes on without a tracker that fails."""
        try:
            action(self._trackers[name])
        except Exception as error:
            del self._trackers[name]
            self._hooks.say(f"The tracker {name} has failed and is not used any more: {error}")

    def _close_trackers(self) -> None:
        for name in list(self._trackers):
            self._try_tracker(name, lambda tracker: tracker.close())

    def hear(self, plan: Plan, logits: Tensor, *, due: bool = False) -> None:
        """Take the predictions of a batch, before it was trained; `due` if a report follows it."""
        n = plan.n_valid
        if self._beside is None:
            self._recent.add(logits[:n], plan.labels[:n], plan.weight[:n])
            return
        self._recent.later(logits, plan.labels, plan.weight, n)
        if due:
            self._ready[plan.step] = self._figures()

    def progress(self, state: State, *, heard: bool = True) -> None:
        """Report where the run stands.

        Args:
            state: Where it stands.
            heard: Whether all steps have said what they have to; else the report waits for that of
                the last of them.
        """
        speed = self._pace.at(state.position, state.train_seconds)
        report = Report("train", state.position, state.total, speed)
        if heard and state.step not in self._ready:
            self._ready[state.step] = self._figures()
        self._due.append(_Due(state.step, state.line(), report))
        if self._beside is None:
            self.tell()

    def tell(self, *, wait: bool = True) -> None:
        """Write and tell the reports that are due and whose figures are there; or wait for all."""
        while self._due:
            figures = self._ready.get(self._due[0].step)
            late = len(self._ready) > _MOST_READY
            if not wait and (figures is None or not (late or figures.done())):
                return
            assert figures is not None, "all steps were heard before anything is waited for"
            self._told = self._written()
            self._hooks.report(self._told)

    def _written(self) -> Report:
        """The first report that is due, with its figures, once it is written."""
        due = self._due.popleft()
        scores = self._ready.pop(due.step).result()
        self._write_line(due.line | scores)
        return replace(due.report, scores=scores)

    def _write_heard(self) -> None:
        """Write the reports of steps that were heard: they say what went on before an error."""
        while self._due and self._due[0].step in self._ready:
            self._written()

    def write(self, line: Mapping[str, Any]) -> None:
        """Write a line behind those that are due before it."""
        self.tell()
        self._write_line(line)

    def again(self) -> None:
        """Tell the last report again: something else was told since."""
        if self._told is not None:
            self._hooks.report(self._told)

    def secured(self) -> int:
        """The length of what was written, once it is on the disk."""
        self.tell()
        return self._lines.secured()

    def state_dict(self) -> dict[str, Tensor]:
        """What a checkpoint holds of the last inputs."""
        return {f"{_PREFIX}{name}": value for name, value in self._recent.state_dict().items()}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Take it over from the tensors of a checkpoint."""
        mine = {n.removeprefix(_PREFIX): v for n, v in tensors.items() if n.startswith(_PREFIX)}
        self._recent.load_state_dict(mine)

    def _figures(self) -> Future[Scores]:
        """The metrics of the last inputs."""
        if self._beside is not None:
            return self._beside.submit(self._recent.copy().result)
        made: Future[Scores] = Future()
        made.set_result(self._recent.result())
        return made
