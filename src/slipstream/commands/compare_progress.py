"""A comparison while it goes on: a live table in a terminal, a line for each run elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from slipstream.commands.terminal import err, human
from slipstream.compare.folder import Folder
from slipstream.compare.grid import PlannedRun
from slipstream.compare.runner import Event
from slipstream.report.runs import read_run

_AROUND = 6  # lines of a terminal that are not variants: headings, how far it is in up to four


class Standing:
    """How far a comparison is.

    Args:
        folder: Where it is.
        runs: Its runs.
        clock: Tells the time.

    Attributes:
        more: Runs that may come to these, at most: which they are depends on what comes out.
        titles: What to call variants, where not by what they change.
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
        self._heard: list[str] = []  # variants, those heard of last at the end
        self.now: Event | None = None
        self.seconds: list[float] = []
        self.failed: set[str] = set()
        self.scores: dict[str, list[tuple[float | None, float | None]]] = {}
        for one in runs:
            if folder.ended(one):
                self._note(one)

    def hear(self, event: Event) -> None:
        """Take note of what happened."""
        self._heard = [one for one in self._heard if one != event.run.variant]
        self._heard.append(event.run.variant)
        self.now = event if event.state == "running" else None
        if event.state == "ended":
            self.seconds.append(event.seconds)
            self._note(event.run)
        elif event.state == "failed":
            self.failed.add(event.run.name)

    def _note(self, one: PlannedRun) -> None:
        run = read_run(self.folder.run(one))
        auc = (run.summary or {}).get("auc")
        self.scores.setdefault(one.variant, []).append((auc, run.inputs_per_second))

    @property
    def done(self) -> int:
        """Runs that have ended."""
        return sum(map(len, self.scores.values()))

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes if it goes on like this."""
        if not self.seconds:
            return None
        left = len(self.runs) + self.more - self.done - len(self.failed)
        spent = self.now.seconds if self.now else 0.0
        return max(0.0, left * sum(self.seconds) / len(self.seconds) - spent)

    def told(self) -> str:
        """How far it is, in a few words."""
        more = f" and up to {self.more} controls" if self.more else ""
        text = f"{self.done} of {len(self.runs)} runs{more} have ended"
        if self.failed:
            text += f", {len(self.failed)} failed"
        seconds = self.seconds_left
        return text if not seconds else f"{text}, about {_time(seconds)} left"

    def called(self, one: PlannedRun) -> str:
        """What to call a run."""
        title = self.titles.get(one.variant)
        return one.name if title is None else f"{title}, seed {one.config.seed}"

    def table(self, most: int | None = None) -> Table:
        """A line for each variant, and one for how far it is.

        Args:
            most: Show no more variants than that: those heard of last, and what comes next.
        """
        table = Table(box=None, pad_edge=False, title_justify="left")
        titles = self._titles(most)
        longest = max(map(len, titles.values()))
        # Where it is narrow, what goes on now is cut off first.
        for name, least in (("strategy", min(longest, 30)), ("runs", 5), ("AUC", 6)):
            table.add_column(name, no_wrap=True, min_width=least)
        table.add_column("inputs/s", no_wrap=True, min_width=8)
        table.add_column("now", no_wrap=True)
        for variant, title in titles.items():
            seen = self.scores.get(variant, [])
            total = sum(one.variant == variant for one in self.runs)
            table.add_row(
                Text(title),
                f"{len(seen)}/{total}",
                _mean([auc for auc, _ in seen], lambda mean: f"{mean:.4f}"),
                _mean([rate for _, rate in seen], human),
                Text(self._now(variant)),
            )
        hidden = len({one.variant for one in self.runs}) - len(titles)
        table.caption = self.told() + (f"; {hidden} lines are not shown" if hidden else "")
        table.caption_justify = "left"
        return table

    def _titles(self, most: int | None) -> dict[str, str]:
        """The variants to show, with what to call them."""
        variants = list(dict.fromkeys(one.variant for one in self.runs))
        if most is not None and len(variants) > most:
            heard = [one for one in self._heard if one in variants]
            new = [one for one in variants if one not in heard and one not in self.scores]
            kept = {*heard[-max(1, most - 1) :]}
            kept |= {*new[: max(0, most - len(kept))]}
            variants = [one for one in variants if one in kept]
        return {one: self.titles.get(one, one) for one in variants}

    def _now(self, variant: str) -> str:
        if self.now is None or self.now.run.variant != variant:
            return ""
        line = self.now.line
        name = f"seed {self.now.run.config.seed}"
        if line is None:
            return f"{name}: starting, {_time(self.now.seconds)}"
        auc = line.get("auc")
        shown = "" if auc is None else f", AUC lately {auc:.4f}"
        return f"{name}: {human(line['position'])} inputs{shown}"


@contextmanager
def compare_progress(
    standing: Standing, console: Console = err
) -> Iterator[Callable[[Event], None]]:
    """Shows how far a comparison is."""
    if console.is_terminal and os.environ.get("TERM") != "dumb":
        with Live(console=console, auto_refresh=False, transient=True) as live:

            def show(event: Event) -> None:
                standing.hear(event)
                if event.state in ("failed", "stopped"):
                    console.print(_line(event, standing), soft_wrap=True)
                live.update(standing.table(max(3, console.height - _AROUND)), refresh=True)

            yield show
        return

    def say(event: Event) -> None:
        standing.hear(event)
        if event.state != "running":
            console.print(_line(event, standing), soft_wrap=True)

    yield say


def _line(event: Event, standing: Standing) -> str:
    name = standing.called(event.run)
    if event.state == "found":
        return f"{name}: had ended before"
    if event.state == "failed":
        return f"{name}: failed. {event.why}"
    if event.state == "stopped":
        return f"{name}: stopped and saved"
    auc, rate = standing.scores[event.run.variant][-1]
    shown = "undefined" if auc is None else f"{auc:.4f}"
    speed = "" if rate is None else f", {human(rate)} inputs/s"
    return f"{name}: AUC {shown}{speed}; {standing.told()}"


def _mean(values: Sequence[float | None], shown: Callable[[float], str]) -> str:
    known = [one for one in values if one is not None]
    return shown(sum(known) / len(known)) if known else ""


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def tell_the_end(standing: Standing, failed: Sequence[Event], go_on: str) -> bool:
    """Say what is left to train, how to go on, and what failed; whether anything did."""
    if standing.done + len(failed) < len(standing.runs):
        err.print(f"Time is up; {standing.told()}. To go on: {go_on}", soft_wrap=True)
    for event in failed:
        err.print(f"{event.run.name} failed: {event.why}", soft_wrap=True)
    return bool(failed)
