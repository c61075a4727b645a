"""The progress and the results of a comparison in the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import fmean

from rich.console import Console
from rich.live import Live
from rich.table import Table

from slipstream.commands.terminal import can_redraw, err, table, warn
from slipstream.compare.folder import Folder
from slipstream.compare.grid import PlannedRun
from slipstream.compare.runner import Event
from slipstream.number_format import compact, duration
from slipstream.report.results import Result
from slipstream.report.runs import read_run
from slipstream.report.table import cells

# Columns of the results, the most important first.
_PRIORITY = (
    *("strategy", "speed-up", "change of AUC", "AUC", "inputs/s", "skipped", "to the same AUC"),
    *("bytes moved an input", "found in fast tier", "seeds", "host memory", "device memory"),
)
_OTHER_LINES = 6  # lines of the live view that are not variants


def show_results(results: Sequence[Result]) -> None:
    """Print the results as a table."""
    names, rows = cells(results, _PRIORITY)
    table("", names, rows, [name for name in _PRIORITY if name in names])


class ComparisonState:
    """Which runs of a comparison have ended, failed, or are training.

    Args:
        folder: The folder of the comparison.
        runs: Its runs.
        clock: Returns the time in seconds.

    Attributes:
        more: Runs that may be added to these, at most.
        titles: Names of variants to show instead of what they change.
    """

    def __init__(
        self,
        folder: Folder,
        runs: Sequence[PlannedRun],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder, self.runs, self.clock = folder, runs, clock
        self.more = 0
        self.titles: Mapping[str, str] = {}
        self.current: Event | None = None
        self.seconds: list[float] = []
        self.failed: set[str] = set()
        self.scores: dict[str, list[tuple[float | None, float | None]]] = {}
        for run in runs:
            if folder.ended(run):
                self._add_scores(run)

    def update(self, event: Event) -> None:
        """Record an event."""
        self.current = event if event.state == "running" else None
        if event.state == "ended":
            self.seconds.append(event.seconds)
            self._add_scores(event.run)
        elif event.state == "failed":
            self.failed.add(event.run.name)

    def _add_scores(self, planned: PlannedRun) -> None:
        run = read_run(self.folder.run(planned))
        auc = (run.summary or {}).get("auc")
        self.scores.setdefault(planned.variant, []).append((auc, run.inputs_per_second))

    @property
    def done(self) -> int:
        """Runs that have ended."""
        return sum(map(len, self.scores.values()))

    def summary(self) -> str:
        """How many runs have ended, and how long the others will take."""
        more = f" and up to {self.more} controls" if self.more else ""
        text = f"{self.done} of {len(self.runs)} runs{more} have ended"
        if self.failed:
            text += f", {len(self.failed)} failed"
        left = len(self.runs) + self.more - self.done - len(self.failed)
        if not self.seconds or not left:
            return text
        spent = self.current.seconds if self.current else 0.0
        return f"{text}, about {duration(max(0.0, left * fmean(self.seconds) - spent))} left"

    def name(self, run: PlannedRun) -> str:
        """What to call a run."""
        title = self.titles.get(run.variant)
        return run.name if title is None else f"{title}, seed {run.config.seed}"

    def table(self, lines: int | None = None) -> Table:
        """One line for each variant, and one for the summary.

        Args:
            lines: Show at most so many variants: those that have not been completed first.
        """
        planned = [run.variant for run in self.runs]
        variants = list(dict.fromkeys(planned))
        if lines is not None and len(variants) > lines:
            complete = [v for v in variants if len(self.scores.get(v, [])) == planned.count(v)]
            variants = [v for v in variants if v not in complete][:lines] or variants[-lines:]
        grid = Table(box=None, pad_edge=False)
        longest = max((len(self.titles.get(variant, variant)) for variant in variants), default=0)
        # A narrow terminal cuts off the last column first.
        for heading, least in (("strategy", min(longest, 30)), ("runs", 5), ("AUC", 6)):
            grid.add_column(heading, no_wrap=True, min_width=least)
        grid.add_column("inputs/s", no_wrap=True, min_width=8)
        grid.add_column("now", no_wrap=True)
        for variant in variants:
            scores = self.scores.get(variant, [])
            aucs = [auc for auc, _ in scores if auc is not None]
            rates = [rate for _, rate in scores if rate is not None]
            grid.add_row(
                self.titles.get(variant, variant),
                f"{len(scores)}/{planned.count(variant)}",
                f"{fmean(aucs):.4f}" if aucs else "",
                compact(fmean(rates)) if rates else "",
                self._current(variant),
            )
        hidden = len(set(planned)) - len(variants)
        grid.caption = self.summary() + (f"; {hidden} strategies are not shown" if hidden else "")
        grid.caption_justify = "left"
        return grid

    def _current(self, variant: str) -> str:
        event = self.current
        if event is None or event.run.variant != variant:
            return ""
        name = f"seed {event.run.config.seed}"
        if event.line is None:
            return f"{name}: starting, {duration(event.seconds)}"
        auc = event.line.get("auc")
        recent = "" if auc is None else f", recent AUC {auc:.4f}"
        return f"{name}: {compact(event.line['position'])} inputs{recent}"


@contextmanager
def compare_progress(
    state: ComparisonState, console: Console = err
) -> Iterator[Callable[[Event], None]]:
    """Show a live table in a terminal, elsewhere a line for each run.

    Yields a function of an event of the comparison.
    """
    live = Live(console=console, auto_refresh=False, transient=True)
    redraw = can_redraw(console)

    def update(event: Event) -> None:
        state.update(event)
        if event.state != "running" and not (redraw and event.state in ("ended", "found")):
            console.print(_line(event, state), soft_wrap=True)
        if redraw:
            live.update(state.table(max(3, console.height - _OTHER_LINES)), refresh=True)

    if not redraw:
        yield update
        return
    with live:
        yield update


def _line(event: Event, state: ComparisonState) -> str:
    name = state.name(event.run)
    if event.state == "found":
        return f"{name}: had ended before"
    if event.state == "failed":
        return f"{name}: failed. {event.why}"
    if event.state == "stopped":
        return f"{name}: stopped; a checkpoint is saved"
    auc, rate = state.scores[event.run.variant][-1]
    score = "undefined" if auc is None else f"{auc:.4f}"
    speed = "" if rate is None else f", {compact(rate)} inputs/s"
    return f"{name}: AUC {score}{speed}; {state.summary()}"


def show_end(state: ComparisonState, failed: Sequence[Event], again: str) -> bool:
    """Print what is left to train, how to continue, and what failed.

    Returns:
        Whether any run failed.
    """
    if state.done + len(failed) < len(state.runs):
        warn(f"The time limit is reached; {state.summary()}. To continue: {again}")
    for event in failed:
        warn(f"{event.run.name} failed: {event.why}")
    return bool(failed)
