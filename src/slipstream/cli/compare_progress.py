"""The progress and the results of a comparison in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from slipstream.analyze.compare.folder import Folder
from slipstream.analyze.compare.grid import PlannedRun
from slipstream.analyze.compare.runner import RunEvent
from slipstream.analyze.report.answer import headline, notes
from slipstream.analyze.report.results import Result
from slipstream.analyze.report.runs import read_run
from slipstream.analyze.report.table import cells
from slipstream.analyze.report.write import RunReport
from slipstream.cli.terminal import can_redraw, err, print_line, table
from slipstream.number_format import compact, duration

# Columns of the results, the most important first.
_COLUMNS = (
    *("strategy", "speed-up", "change of AUC", "AUC", "AUC against random", "examples/s"),
    *("skipped", "bytes copied per example", "found in fast tier", "seeds"),
    *("host memory", "device memory"),
)


def print_report(report: RunReport) -> None:
    """Print the table, the answer and the notes of each group of runs."""
    for chapter in report.chapters:
        if chapter.group.label:
            print_line(f"\n{chapter.group.label}", style="bold")
        if chapter.results:
            print_results(chapter.results)
            print_line()
        print_line(headline(chapter.results), style="bold")
        for note in (*notes(chapter.group, chapter.results), *chapter.remarks):
            print_line(f"- {note}")


def print_results(results: Sequence[Result]) -> None:
    """Print the results as a table."""
    table("", *cells(results, _COLUMNS), omit=True)


class CompareProgress:
    """How many runs of a comparison have ended, and how long the others will take."""

    def __init__(self, folder: Folder, runs: Sequence[PlannedRun], *, force: bool = False) -> None:
        self.folder, self.runs = folder, runs
        self.ended = {run.name for run in runs if not force and folder.ended(run)}
        self._failed: set[str] = set()
        self._seconds: list[float] = []
        self._running_seconds = 0.0

    def update(self, event: RunEvent) -> None:
        """Count an event."""
        self._running_seconds = event.seconds if event.state == "running" else 0.0
        if event.state == "ended":
            self.ended.add(event.run.name)
            self._seconds.append(event.seconds)
        elif event.state == "failed":
            self._failed.add(event.run.name)

    def summary(self) -> str:
        """The state in a few words."""
        text = f"{len(self.ended)} of {len(self.runs)} runs have ended"
        if self._failed:
            text += f", {len(self._failed)} failed"
        if not self._seconds:
            return text
        left = len(self.runs) - len(self.ended) - len(self._failed)
        seconds = left * sum(self._seconds) / len(self._seconds) - self._running_seconds
        return f"{text}, about {duration(seconds)} left" if seconds > 0 else text

    @contextmanager
    def shown(self, console: Console = err) -> Iterator[Callable[[RunEvent], None]]:
        """Show events as they are passed to the function that this context returns."""
        columns = (BarColumn(20), TextColumn("{task.description}"))
        plain = not can_redraw(console)
        with Progress(*columns, console=console, transient=True, disable=plain) as bar:
            task = bar.add_task(self.summary(), total=len(self.runs))

            def show(event: RunEvent) -> None:
                self.update(event)
                if event.state != "running":
                    console.print(self._line(event), soft_wrap=True)
                text = f"{self.summary()}; {_running(event)}"
                bar.update(task, description=text, completed=len(self.ended) + len(self._failed))

            yield show

    def _line(self, event: RunEvent) -> str:
        if event.state == "ended":
            run = read_run(self.folder.run(event.run))
            auc, rate = (run.summary or {}).get("auc"), run.inputs_per_second
            speed = "" if rate is None else f", {compact(rate)} examples/s"
            score = "undefined" if auc is None else f"{auc:.4f}"
            return f"{event.run.name}: AUC {score}{speed}; {self.summary()}"
        states = {"ended before": "had ended before", "stopped": "stopped and saved"}
        return f"{event.run.name}: {states.get(event.state) or f'failed. {event.error}'}"


def _running(event: RunEvent) -> str:
    """The state of the run that is trained now."""
    if event.line is None:
        return event.run.name
    auc = event.line.get("auc")
    recent = "" if auc is None else f", recent AUC {auc:.4f}"
    return f"{event.run.name}: {compact(event.line['position'])} examples{recent}"
