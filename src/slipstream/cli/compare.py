"""`slipstream compare`: which strategy is worth it on this data and machine."""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from slipstream.cli.config_options import ConfigOptions, config_options
from slipstream.cli.terminal import print_line, warn
from slipstream.errors import ConfigError

if TYPE_CHECKING:  # torch takes seconds to import
    from slipstream.analyze.compare.comparison import Comparison


@config_options("batch_size", "epochs", "start", "stop", "device", "fast_memory")
def compare(
    options: ConfigOptions,
    data: Path | None = typer.Argument(None, metavar="DATA", help="The folder of the data set."),
    to: Path = typer.Option(..., "--out", metavar="DIR", help="The folder of the comparison."),
    preset: str | None = typer.Option(
        None, metavar="NAME", help="Instead of --strategies: skipping compares all skip rules."
    ),
    strategies: str | None = typer.Option(
        None,
        metavar="NAMES",
        help="Separated by commas; plain+random is plain with the skip rule random. Default: all, "
        "and plain+random.",
    ),
    skip: str | None = typer.Option(
        None,
        metavar="RULES",
        help="Skip rules, separated by commas; each strategy is trained without and with each.",
    ),
    models: str | None = typer.Option(
        None, metavar="NAMES", help="Models, separated by commas. Default: dlrm."
    ),
    seeds: int | None = typer.Option(
        None, min=1, help="How often to train each, with another seed. Default: 5."
    ),
    grid: list[str] = typer.Option(
        [],
        metavar="KEY=V1,V2",
        help="Train every strategy with each of these values of a key of docs/config.md.",
    ),
    minutes: float | None = typer.Option(
        None, min=0, help="Limit of the time: no seed is begun that would exceed it."
    ),
    keep_checkpoints: bool = typer.Option(
        False, "--keep-checkpoints", help="Do not delete the weights of each run."
    ),
    force: bool = typer.Option(False, "--force", help="Replace the comparison in DIR."),
) -> None:
    """Train several strategies on the same data, and report which is faster and what it costs.

    Each run has its own process. All strategies are trained with one seed, then all with the next.
    Only runs with the same seed are compared with one another. Stop it at any time; the same
    command continues and trains nothing twice. DIR then contains report.html, plots, results.json,
    and a folder for each run. Here --fast-memory is auto by default.

    Example: slipstream compare clicks --strategies plain,fast --seeds 5 --out compared
    """
    from slipstream.analyze.compare.comparison import Comparison
    from slipstream.analyze.compare.options import read_options
    from slipstream.cli.compare_progress import CompareProgress

    flags = options.flags | {"data": None if data is None else str(data)}
    lists: dict[str, Any] = {"strategies": strategies, "skip": skip, "models": models, "grid": grid}
    lists |= {"preset": preset, "seeds": seeds}
    base, choices = read_options(options.file, flags, options.settings, lists)
    if not base.data:
        raise ConfigError("The data set is missing: slipstream compare DATA --out DIR.")
    comparison = Comparison(base, choices, to)
    comparison.check(leave_out=choices.all, warn=warn)
    progress = CompareProgress(comparison.folder, comparison.runs, force=force)
    again = shlex.join(["slipstream", *(word for word in sys.argv[1:] if word != "--force")])
    seconds = None if minutes is None else 60 * minutes
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    try:
        with progress.shown() as on_event:
            failed = comparison.train(
                on_event, force=force, keep_checkpoints=keep_checkpoints, seconds=seconds
            )
    except KeyboardInterrupt:
        _print_results(comparison)
        raise KeyboardInterrupt(f"Stopped; {progress.summary()}. To continue: {again}") from None
    if len(progress.ended) + len(failed) < len(comparison.runs):
        warn(f"The time is over; {progress.summary()}. To continue: {again}")
    _print_results(comparison)
    if failed:
        raise typer.Exit(1)


def _print_results(comparison: Comparison) -> None:
    """Write the results of all runs that have ended, and print them."""
    from slipstream.cli.compare_progress import print_report

    report = comparison.write()
    if report is not None:
        print_report(report)
        print_line(f"The report is in {comparison.folder.path / 'report.html'}.")
