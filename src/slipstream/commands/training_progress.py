"""The progress of a training: one live line in a terminal, now and then a line elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from slipstream.commands.terminal import err, human
from slipstream.training.progress import Progress, Report

_LIVE_EVERY = 0.1
_NARROWEST = 20


@contextmanager
def training_progress(
    console: Console = err,
    *,
    every: float = 10.0,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Progress]:
    """Shows the reports of a training.

    In a terminal it is one line that fits its width and is gone in the end. In a pipe, in CI and
    in a terminal that cannot do that it is a plain line at most every `every` seconds, and one at
    the end.
    """
    if _is_live(console):
        with Live(console=console, auto_refresh=False, transient=True) as live:
            shown = clock() - _LIVE_EVERY

            def show(report: Report) -> None:
                nonlocal shown
                if clock() - shown >= _LIVE_EVERY:
                    shown = clock()
                    live.update(_Line(report), refresh=True)

            yield show
        return

    printed, latest = clock(), None

    def tell(report: Report) -> None:
        nonlocal printed, latest
        latest = report
        if clock() - printed >= every:
            printed, latest = clock(), None
            _print(console, report)

    try:
        yield tell
    finally:  # also after Ctrl-C: it says how far the training came
        if latest is not None:
            _print(console, latest)


def line(report: Report, width: int | None = None) -> str:
    """A report in one line; where it is too long, what matters least is left out first.

    Example:
        >>> report = Report("train", 1_200_000, 4_800_000, rate=24_000, loss=0.4512, auc=0.7891)
        >>> line(report)
        'train  25 %  1.2 M of 4.8 M inputs  24 k/s  loss 0.4512  AUC 0.7891  2 min 30 s left'
        >>> line(report, 40)
        '25 %  loss 0.4512  2 min 30 s left'
        >>> line(report, 20)
        '25 %  loss 0.4512'
    """
    left = report.seconds_left
    percent = 100 * report.done // report.total if report.total else 100
    # In the order of the line; the numbers say what stays longest.
    fields = [
        (6, report.phase),
        (0, f"{percent} %"),
        (4, f"{human(report.done)} of {human(report.total)} inputs"),
        (5, None if report.rate is None else f"{human(report.rate)}/s"),
        (1, None if report.loss is None else f"loss {report.loss:.4f}"),
        (3, None if report.auc is None else f"AUC {report.auc:.4f}"),
        (2, None if left is None else f"{duration(left)} left"),
    ]
    kept = sorted((rank, place) for place, (rank, text) in enumerate(fields) if text)
    while True:
        places = sorted(place for _, place in kept)
        text = "  ".join(fields[place][1] or "" for place in places)
        if width is None or len(text) <= width or len(kept) == 1:
            return text
        kept.pop()


def duration(seconds: float) -> str:
    """A time in two units at most.

    Example:
        >>> duration(42.3), duration(150), duration(7500), duration(200_000)
        ('42 s', '2 min 30 s', '2 h 5 min', '2 d 7 h')
    """
    if not seconds < 100 * 86400:
        return "over 100 d"
    whole = int(seconds)
    for unit, inside, size, part in (("d", "h", 86400, 3600), ("h", "min", 3600, 60)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part} {inside}"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


class _Line:
    """A report as wide as the terminal is when it is shown."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # A terminal puts the cursor onto a new line after the last column: leave it free.
        width = max(options.max_width - 1, _NARROWEST - 1)
        yield Text(line(self.report, width), no_wrap=True, overflow="crop")


def _is_live(console: Console) -> bool:
    """Whether a line can be drawn over; colours that were asked for do not make it so."""
    return console.file.isatty() and not console.is_dumb_terminal and not os.environ.get("CI")


def _print(console: Console, report: Report) -> None:
    try:
        print(line(report), file=console.file, flush=True)
    except BrokenPipeError:
        console.on_broken_pipe()
