"""`slipstream compare`: which strategy is worth it on this data and machine."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer

from slipstream.commands.terminal import print_line, warn
from slipstream.errors import ConfigError

if TYPE_CHECKING:  # torch takes seconds to import
    from slipstream.compare.compare import Comparison


def compare(
    data: Path | None = typer.Argument(None, metavar="DATA", help="The folder of the data set."),
    to: Path = typer.Option(..., "--out", metavar="DIR", help="The folder of the comparison."),
    strategies: str | None = typer.Option(
        None,
        metavar="NAMES",
        help="Separated by commas; plain+random is plain with the rule random. Default: all "
        "strategies, and plain+random as a control.",
    ),
    skip: str | None = typer.Option(
        None, metavar="RULES", help="Also train each strategy with each of these rules."
    ),
    models: str | None = typer.Option(None, metavar="NAMES", help="Default: dlrm."),
    seeds: int | None = typer.Option(None, min=1, help="How many. Default: 5."),
    grid: list[str] = typer.Option(
        [], metavar="KEY=V1,V2", help="Also combine these values of a key of the config."
    ),
    config: Path | None = typer.Option(
        None, metavar="FILE", help="A YAML file as for train; a section compare may say the above."
    ),
    batch_size: int | None = typer.Option(None, help="Inputs of a step. Default: 2048."),
    epochs: int | None = typer.Option(None, help="How often every input comes. Default: 1."),
    limit: int | None = typer.Option(None, help="Train on the first inputs only."),
    device: str | None = typer.Option(None, help="cpu or cuda. Default: cpu."),
    fast_memory: str | None = typer.Option(
        None, metavar="SIZE", help="256MiB, 5% of all rows, or auto. Default: auto."
    ),
    settings: list[str] = typer.Option(
        [], "--set", metavar="KEY=VALUE", help="Any key of the config, for all runs."
    ),
    minutes: float | None = typer.Option(
        None, min=0, help="Begin no further seed that would not be through within this time."
    ),
    keep_checkpoints: bool = typer.Option(
        False, "--keep-checkpoints", help="Keep the weights of every run; else only its numbers."
    ),
    force: bool = typer.Option(False, "--force", help="Begin anew where there is a comparison."),
) -> None:
    """Train several strategies on the same data and say which is worth it, and by how much.

    Each run has a process of its own. All strategies are trained with one seed, then all with the
    next, and differences are taken seed by seed, so that a noisy machine hurts all alike. Stop it
    at any time; the same command goes on, and does nothing twice. What comes out is in DIR:
    report.html, plots, results.csv, results.json, and a folder for each run.

    Example: slipstream compare clicks --strategies plain,fast --seeds 5 --out compared
    """
    from slipstream.compare.asked import asked
    from slipstream.compare.compare import Comparison

    flags = {
        "data": None if data is None else str(data),
        "batch_size": batch_size,
        "epochs": epochs,
        "limit": limit,
        "device": device,
        "placement.fast_memory": fast_memory,
    }
    lists: dict[str, Any] = {
        "strategies": strategies,
        "skip": skip,
        "models": models,
        "seeds": seeds,
        "grid": grid,
    }
    base, choices, named = asked(config, flags, settings, lists)
    if not base.data:
        raise ConfigError("Say what to train on: slipstream compare DATA --out DIR.")
    comparison = Comparison(base, choices, to)
    comparison.check(leave_out=not named, say=warn)
    seconds = None if minutes is None else 60 * minutes
    failed = _train(comparison, force=force, keep=keep_checkpoints, seconds=seconds)
    _tell(comparison)
    if failed:
        raise typer.Exit(1)


def _train(comparison: Comparison, *, force: bool, keep: bool, seconds: float | None) -> bool:
    """Train, and write what there is also where it is stopped; whether anything failed."""
    from slipstream.commands.compare_progress import ComparisonState, compare_progress, show_end

    standing = ComparisonState(comparison.folder, [] if force else comparison.runs)
    standing.runs = comparison.runs
    try:
        with terminated_is_interrupted(), compare_progress(standing) as tell:
            failed = comparison.train(tell, force=force, keep=keep, seconds=seconds)
    except KeyboardInterrupt:
        _tell(comparison)
        raise KeyboardInterrupt(f"Stopped; {standing.summary()}. To go on: {again()}") from None
    return show_end(standing, failed, again())


def _tell(comparison: Comparison) -> None:
    from slipstream.commands.compare_progress import show_results
    from slipstream.report.answer import headline, notes

    report = comparison.write()
    if report is None:
        return
    for one in report.chapters:
        if one.setting.label:
            print_line(f"\n{one.setting.label}", style="bold")
        show_results(one.results)
        print_line()
        print_line(headline(one.results), style="bold")
        for note in (*notes(one.setting, one.results), *one.remarks):
            print_line(f"- {note}")
    folder = comparison.folder.path
    print_line(f"\nThe report is in {folder / 'report.html'}.")


def again() -> str:
    """The command that goes on with this comparison."""
    return shlex.join(["slipstream", *(word for word in sys.argv[1:] if word != "--force")])


@contextmanager
def terminated_is_interrupted() -> Iterator[None]:
    """A friendly kill is taken as Ctrl-C."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
