"""What every sub-command shares: printing, progress, and how it ends when something is wrong."""

from __future__ import annotations

import errno
import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from slipstream.errors import SlipstreamError

P = ParamSpec("P")
R = TypeVar("R")


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """End quietly: whoever reads our output has enough."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0)


out = _Console(highlight=False, markup=False, emoji=False)
err = Console(stderr=True, highlight=False, markup=False, emoji=False)


def says_what_is_wrong(command: Callable[P, R]) -> Callable[P, R]:
    """Turn an error that the user can act on into a sentence and an exit status.

    2: something given is wrong, or a file cannot be read or written. 130: Ctrl-C.
    """

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except SlipstreamError as error:
            _say(str(error))
            raise typer.Exit(2) from None
        except OSError as error:
            _say(_about_files(error))
            raise typer.Exit(2) from None
        except KeyboardInterrupt as stop:
            _say(str(stop) or "Stopped. Nothing was left half-written.")
            raise typer.Exit(130) from None

    return wrapped


@contextmanager
def progress(what: str, total: int, unit: str) -> Iterator[Callable[[float], None]]:
    """A bar with amount, rate and time left; nothing at all where no terminal shows it."""
    columns = (
        TextColumn(what),
        BarColumn(bar_width=None),
        TextColumn("{task.percentage:>3.0f} %"),
        _Rate(unit),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)


@contextmanager
def steps(unit: str) -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each step of a longer work, told how much is done and of how much."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        _Amount(unit),
        _Rate(unit),
        TimeRemainingColumn(compact=True),
    )
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:

        def tell(step: str, done: int, total: int) -> None:
            if step not in tasks:
                tasks[step] = bar.add_task(step, total=total)
            bar.update(tasks[step], completed=done, total=total)

        yield tell


def table(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; where the terminal is too narrow for it, a line for each row instead."""
    out.print(title, soft_wrap=True)
    widths = [max(map(len, cells)) for cells in zip(names, *rows, strict=True)]
    if sum(widths) + 2 * len(widths) > out.width:
        for row in rows:
            cells = [f"{n} {c}" for n, c in zip(names[1:], row[1:], strict=True) if c]
            out.print(f"  {row[0]}: {', '.join(cells)}", soft_wrap=True)
        return
    for row in (names, *rows):
        cells = [
            cell.ljust(width) if place in (0, len(row) - 1) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        out.print("  " + "  ".join(cells).rstrip(), style="bold" if row is names else None)


def human(amount: float) -> str:
    """A large number in few characters.

    Example:
        >>> human(2_400_000)
        '2.4 M'
    """
    for suffix in ("", "k", "M", "G"):
        if amount < 999.5:
            return f"{amount:.3g} {suffix}".rstrip()
        amount /= 1000
    return f"{amount:,.3g} T" if amount < 999.5 else f"{amount:,.0f} T"


class _Amount(ProgressColumn):
    """How much is done, of how much."""

    def __init__(self, unit: str) -> None:
        super().__init__(table_column=Column(no_wrap=True))
        self.unit = unit

    def render(self, task: Task) -> Text:
        """The text of this column."""
        return Text(f"{human(task.completed)} of {human(task.total or 0)} {self.unit}")


class _Rate(ProgressColumn):
    """How much is done in a second."""

    def __init__(self, unit: str) -> None:
        super().__init__(table_column=Column(no_wrap=True))
        self.unit = unit

    def render(self, task: Task) -> Text:
        """The text of this column."""
        return Text(f"{human(task.speed or 0)} {self.unit}/s")


def _say(sentence: str) -> None:
    err.print(f"slipstream: {sentence}", soft_wrap=True)


def _about_files(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    if error.errno == errno.ENOSPC:
        return f"{where}The disk is full. Make room or choose a folder on another disk."
    if error.errno == errno.EACCES:
        return f"{where}Permission denied. Choose a folder that you may write to."
    return f"{where}{error.strerror or error}."
