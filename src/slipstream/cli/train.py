"""`slipstream train`: from a packed data set to a trained, evaluated model."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import typer

from slipstream.cli.config_options import ConfigOptions, config_options
from slipstream.cli.terminal import err, print_line, training_progress, warn
from slipstream.errors import ConfigError
from slipstream.number_format import compact, size


@config_options()
def train(
    *,
    data: Path | None = typer.Argument(
        None, metavar="DATA", help="The folder of the packed data set; not needed with --resume."
    ),
    to: Path = typer.Option(
        ..., "--out", metavar="RUN", help="The folder to create, for everything about this run."
    ),
    options: ConfigOptions,
    resume: bool = typer.Option(
        False, "--resume", help="Continue a run that was stopped or killed."
    ),
    force: bool = typer.Option(False, "--force", help="Replace an existing run."),
) -> None:
    """Train a model on a packed data set.

    The folder of the run contains the configuration, metrics, checkpoints and summary.json. Ctrl-C
    saves a checkpoint and stops; --resume continues.

    Example: slipstream train clicks --model dlrm --set dense.lr=0.05 --out run
    """
    from slipstream.config import Config
    from slipstream.data.dataset import Dataset
    from slipstream.training.loop import train as run
    from slipstream.training.run import Run
    from slipstream.training.state import Hooks, StoppedError

    if resume and force:
        raise ConfigError("Choose one of --resume (continue) and --force (start again).")
    if data is not None:
        options.flags["data"] = str(data)
    base = Run.open(to).config if resume else None
    if base is not None and options.file is not None:
        file = Config.read(options.file)
        base = file.replace(data=file.data or base.data)
    config = options.config(base)
    if not config.data:
        raise ConfigError("Name the data set to train on: slipstream train DATA --out RUN.")
    again = shlex.join(("slipstream", "train", "--resume", "--out", str(to)))
    with _stop_on_signal(again) as signals, training_progress() as report:
        hooks = Hooks(report, warn, lambda: bool(signals))
        try:
            data_set = Dataset.open(config.data)
            summary = run(data_set, config, to, resume=resume, force=force, hooks=hooks)
        except StoppedError as stopped:
            raise KeyboardInterrupt(f"{stopped} To continue: {again}") from None
    _show_summary(summary, to)


@contextmanager
def _stop_on_signal(again: str) -> Iterator[list[int]]:
    """Collect Ctrl-C and SIGTERM in a list; a second one ends the process, which a run survives."""
    signals: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        signals.append(number)
        if len(signals) == 1:
            _write("Stopping after a checkpoint is saved. Press Ctrl-C again to stop at once.")
            return
        err.show_cursor(True)
        _write(f"slipstream: Stopped at once. To continue from the last checkpoint: {again}")
        os._exit(130)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _write(text: str) -> None:
    """Write straight to the terminal: a signal may interrupt any other output."""
    begin = "\r\x1b[2K" if os.isatty(2) else ""  # replaces the line of progress
    with suppress(OSError):
        os.write(2, f"{begin}{text}\n".encode())


def _show_summary(summary: dict[str, Any], run: Path) -> None:
    from slipstream.training.metrics.registry import METRICS

    def metric(name: str) -> str:
        value = summary[name]
        return "undefined" if value is None else f"{value:.4f}"

    skipped = summary["inputs_skipped"]
    print_line(
        f"{run}: {summary['inputs_trained']:,} examples trained"
        f"{f' and {skipped:,} skipped' if skipped else ''} in {summary['train_seconds']:.1f} s "
        f"({compact(summary['samples_per_second'])} examples/s)"
    )
    print_line(f"Part of the log: {summary['trained_part']}")
    scores = (f"{name} {metric(name)}" for name in METRICS if name in summary)
    text = ", ".join(scores).replace("auc", "AUC").replace("_", " ")
    print_line(f"{text} over {summary['inputs']:,} examples")
    oracle, auc = summary["oracle_auc"], summary["auc"]
    if oracle is not None and auc is not None:
        print_line(
            f"The best possible AUC on this data is {oracle:.4f}, {oracle - auc:.4f} higher."
        )
    if "transfers" in summary:
        waits, oversized = summary["waits"], summary["transfers"]["oversized_steps"]
        rows_in, rows_out, bytes_in, bytes_out = (
            summary["transfers"]["per_input"][name]
            for name in ("rows_in", "rows_out", "bytes_in", "bytes_out")
        )
        print_line(
            f"Fast tier: {summary['hot_access_share']:.1%} of row lookups found their row in it. "
            f"For each example, {rows_in:.3g} rows ({size(bytes_in)}) were copied in and "
            f"{rows_out:.3g} ({size(bytes_out)}) out."
        )
        print_line(
            f"{waits['steps']:,} steps waited for rows, {waits['seconds']:.3g} s in total"
            + (f"; {oversized:,} steps did not fit the fast tier" if oversized else "")
        )
    if "skipping" in summary:
        print_line(f"Skipping: {summary['skipping']['sentence']}")
    curve = [f"{at['share']:.0%} {at['auc']:.4f}" for at in summary["curve"] if at["auc"]]
    if len(curve) > 1:
        print_line(f"AUC during the run: {', '.join(curve)}")
