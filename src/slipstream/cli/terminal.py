"""What all sub-commands share in the terminal: messages, errors, tables and progress."""

from __future__ import annotations

import errno
import functools
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import typer
from rich import progress as bars
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from slipstream.errors import SlipstreamError
from slipstream.number_format import compact, duration

if TYPE_CHECKING:
    from slipstream.training.progress import Progress

P = ParamSpec("P")
R = TypeVar("R")
_LIVE_EVERY = 0.1
_FEWEST_COLUMNS = 3


class _Console(Console):
    """A console whose reader may leave: on stdout this ends the command without an error.

    On stderr it must not end a long training: further messages are dropped.
    """

    def on_broken_pipe(self) -> None:
        stream = sys.stderr if self.stderr else sys.stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if not self.stderr:
            raise SystemExit(0)


out = _Console(highlight=False, markup=False, emoji=False)
err = _Console(stderr=True, highlight=False, markup=False, emoji=False)


def print_line(text: str = "", style: str | None = None) -> None:
    """Print a line to stdout; long lines are not wrapped."""
    out.print(text, style=style, soft_wrap=True)


def warn(text: str) -> None:
    """Print a line to stderr; long lines are not wrapped."""
    err.print(text, soft_wrap=True)


def reports_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Turn an error that the user can correct into one sentence and an exit status.

    2: an option or a file is wrong, or a file cannot be read or written. 130: Ctrl-C.
    """

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except SlipstreamError as error:
            message, status = str(error), 2
        except OSError as error:
            message, status = _file_error(error), 2
        except KeyboardInterrupt as stop:
            message, status = str(stop) or "Stopped. No unfinished files are left.", 130
        warn(f"slipstream: {message}")
        raise typer.Exit(status)

    return wrapped


def _file_error(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    if error.errno == errno.ENOSPC:
        return f"{where}The disk is full. Free some space or choose a folder on another disk."
    if error.errno == errno.EACCES:
        return f"{where}Permission denied. Choose a folder that you may write to."
    return f"{where}{error.strerror or error}."


def table(
    title: str, names: Sequence[str], rows: Sequence[Sequence[str]], *, omit: bool = False
) -> None:
    """Print a table. Where the terminal is too narrow, print one line for each row instead.

    Args:
        title: Printed above the table; may be empty.
        names: The headings. The first column names the row.
        rows: One cell for each heading.
        omit: Whether a narrow terminal omits the last columns and names them below the table.
    """
    if title:
        print_line(title)
    unlimited = out.options.update(max_width=10_000)
    fewest = min(_FEWEST_COLUMNS, len(names)) if omit else len(names)
    for count in range(len(names), fewest - 1, -1):
        grid = Table(*names[:count], box=None, padding=(0, 2, 0, 0), pad_edge=False)
        for number, column in enumerate(grid.columns):
            column.no_wrap = True
            numeric = not omit and 0 < number < count - 1
            column.justify = "right" if numeric else "left"
        for row in rows:
            grid.add_row(*row[:count])
        if out.measure(grid, options=unlimited).maximum <= out.width:
            out.print(grid)
            if count < len(names):
                print_line(f"A wider terminal also shows: {', '.join(names[count:])}.")
            return
    for row in rows:
        cells = [f"{name} {cell}" for name, cell in zip(names[1:], row[1:], strict=True) if cell]
        print_line(f"{row[0]}: {', '.join(cells)}".replace("\n", ", "))


@contextmanager
def progress(unit: str) -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each step of the work; nothing where stderr is not a terminal.

    Yields a function of the step's name, the amount that is done, and the total amount.
    """
    columns = (
        bars.TextColumn("{task.description}", table_column=Column(no_wrap=True, min_width=7)),
        bars.BarColumn(bar_width=None),
        _Amount(unit, table_column=Column(no_wrap=True)),
        bars.TimeRemainingColumn(compact=True),
    )
    tasks: dict[str, bars.TaskID] = {}
    with bars.Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as live:

        def update(step: str, done: int, total: int) -> None:
            if step not in tasks:
                tasks[step] = live.add_task(step, total=total)
            live.update(tasks[step], completed=done, total=total)

        yield update


@contextmanager
def progress_bar(step: str, total: int, unit: str) -> Iterator[Callable[[float], None]]:
    """One bar; yields a function of how much more is done."""
    done = 0.0
    with progress(unit) as update:

        def advance(amount: float) -> None:
            nonlocal done
            done += amount
            update(step, int(done), total)

        yield advance


class _Amount(bars.TextColumn):
    """The amount that is done, the total, and the rate, in the unit that is its text."""

    def render(self, task: bars.Task) -> Text:
        unit, total = self.text_format, compact(task.total or 0)
        return Text(
            f"{compact(task.completed)} of {total} {unit}  {compact(task.speed or 0)} {unit}/s"
        )


@contextmanager
def training_progress(
    console: Console = err, *, every: float = 10.0, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[Progress], None]]:
    """Show the reports of a training: one live line, or plain lines where the line cannot change.

    Plain lines come `every` so many seconds, and always for the last report.
    """
    live = can_redraw(console)
    interval = _LIVE_EVERY if live else every
    shown = clock() - (interval if live else 0)
    unseen: Progress | None = None
    column = bars.TextColumn("{task.description}", table_column=Column(no_wrap=True))
    bar = bars.Progress(
        column, console=console, auto_refresh=False, transient=True, disable=not live
    )
    task = bar.add_task("")

    def show(report: Progress) -> None:
        if live:
            bar.update(task, description=training_line(report), refresh=True)
        else:
            console.print(training_line(report), soft_wrap=True, highlight=False)

    def update(report: Progress) -> None:
        nonlocal shown, unseen
        unseen = report
        if clock() - shown >= interval:
            shown, unseen = clock(), None
            show(report)

    with bar:
        try:
            yield update
        finally:  # also after Ctrl-C, so that the user sees how far the training came
            if unseen is not None and not live:
                show(unseen)


def training_line(report: Progress) -> str:
    """A report in one line, the most important first: a narrow terminal cuts off the end.

    Example:
        >>> from slipstream.training.progress import Progress
        >>> scores = {"logloss": 0.4512, "auc": 0.7891}
        >>> report = Progress("train", 1_200_000, 4_800_000, rate=24_000, scores=scores)
        >>> training_line(report)
        'train 25 %  loss 0.4512  2 min 30 s left  AUC 0.7891  24 k/s  1.2 M of 4.8 M examples'
    """
    percent = 100 * report.done // report.total if report.total else 100
    left, loss, auc = report.seconds_left, report.scores.get("logloss"), report.scores.get("auc")
    parts = (
        f"{report.phase} {percent} %",
        None if loss is None else f"loss {loss:.4f}",
        None if left is None else f"{duration(left)} left",
        None if auc is None else f"AUC {auc:.4f}",
        None if report.rate is None else f"{compact(report.rate)}/s",
        f"{compact(report.done)} of {compact(report.total)} examples",
    )
    return "  ".join(part for part in parts if part)


def can_redraw(console: Console) -> bool:
    """Whether a live line can be drawn; forced colours alone do not make it possible."""
    return console.file.isatty() and not console.is_dumb_terminal and not os.environ.get("CI")
