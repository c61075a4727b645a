"""What a run reports on its way: lines in `metrics.jsonl`, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from torch import Tensor

from slipstream.plan import Plan
from slipstream.training.progress import Pace, Report
from slipstream.training.recent import Lately, Recent
from slipstream.training.run import Lines, Run
from slipstream.training.state import Hooks, State

_RECENT = 1 << 16
_PREFIX = "recent."


class Reports:
    """Reports of a run, in the order of what they are about.

    The AUC of the last inputs takes as long as some steps of a GPU, so there a thread works it
    out beside them, and the report is written when it is done, or before anything that follows it.

    Args:
        run: The run's folder.
        hooks: Who is told.
        beside: Whether figures are worked out beside the steps.
        stack: Closes what was opened.
    """

    def __init__(self, run: Run, hooks: Hooks, *, beside: bool, stack: ExitStack) -> None:
        self._run, self._hooks, self._stack = run, hooks, stack
        self._recent, self._pace = Recent(_RECENT), Pace()
        self._told: Report | None = None
        self._due: tuple[dict[str, Any], Report, Future[Lately]] | None = None
        self._beside = None
        if beside:
            self._beside = ThreadPoolExecutor(1, thread_name_prefix="slipstream-report")
            stack.callback(self._beside.shutdown)

    def open(self, length: int, tensorboard: bool, position: int) -> None:
        """Begin or go on with `metrics.jsonl`.

        Args:
            length: Bytes to keep of what is there.
            tensorboard: Whether to write for TensorBoard too.
            position: Where the run stands.
        """
        self._lines = Lines(self._run.folder, length, tensorboard, position)
        self._stack.callback(self._lines.close)
        if self._lines.missing:
            self._hooks.say("metrics.jsonl has lost lines since the checkpoint; they stay lost.")

    def hear(self, plan: Plan, logits: Tensor) -> None:
        """Take the predictions of a batch, before it was trained."""
        n = plan.n_valid
        if self._beside is None:
            self._recent.add(logits[:n], plan.labels[:n], plan.weight[:n])
        else:
            self._recent.later(logits, plan.labels, plan.weight, n)

    def progress(self, state: State) -> None:
        """Report where the run stands."""
        self.tell()
        speed = self._pace.at(state.position, state.train_seconds)
        report = Report("train", state.position, state.total, speed)
        self._due = state.line(None, None), report, self._figures()
        if self._beside is None:
            self.tell()

    def tell(self, *, wait: bool = True) -> None:
        """Write and tell the report that is due, if there is one and its figures are there."""
        if self._due is None or not (wait or self._due[2].done()):
            return
        line, report, figures = self._due
        self._due = None
        loss, auc, _ = figures.result()
        self._lines.write(line | {"loss": loss, "auc": auc})
        self._told = replace(report, loss=loss, auc=auc)
        self._hooks.report(self._told)

    def write(self, line: Mapping[str, Any]) -> None:
        """Write a line behind those that are due before it."""
        self.tell()
        self._lines.write(line)

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

    def _figures(self) -> Future[Lately]:
        """Loss and AUC of the last inputs."""
        if self._beside is not None:
            return self._beside.submit(self._recent.copy().result)
        made: Future[Lately] = Future()
        made.set_result(self._recent.result())
        return made
