"""`slipstream train`: from a packed data set to a trained, evaluated model."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer

from slipstream.commands.terminal import err, human, out, says_what_is_wrong
from slipstream.commands.training_progress import training_progress
from slipstream.errors import ConfigError

if TYPE_CHECKING:  # torch takes seconds to import: commands do so when they run
    from slipstream.config import Config


@says_what_is_wrong
def train(
    data: Path | None = typer.Argument(
        None, metavar="DATA", help="The folder of the data set; left out with --resume."
    ),
    to: Path = typer.Option(..., "--out", metavar="RUN", help="The folder of the run."),
    config: Path | None = typer.Option(
        None, metavar="FILE", help="A YAML file; see docs/config.md."
    ),
    model: str | None = typer.Option(
        None, help="dlrm, tbsm, dcn, deepfm or wide_deep. Default: dlrm."
    ),
    strategy: str | None = typer.Option(
        None,
        help="plain, fae, hotline, bagpipe, fast or slipstream. Default: plain; fast on a GPU.",
    ),
    ordering: str | None = typer.Option(None, help="Instead of the strategy's ordering."),
    placement: str | None = typer.Option(None, help="Instead of the strategy's placement."),
    skip: str | None = typer.Option(
        None, metavar="RULE", help="Which inputs to skip; see docs/skipping.md. Default: none."
    ),
    max_auc_loss: float | None = typer.Option(
        None, metavar="X", help="Skip only as much as pilots show to cost no more AUC than that."
    ),
    device: str | None = typer.Option(None, help="cpu, cuda or cuda:NUMBER. Default: cpu."),
    fast_memory: str | None = typer.Option(
        None, metavar="SIZE", help="Of the fast tier: 2GiB, 5% of all rows, or auto. Default: 5%."
    ),
    batch_size: int | None = typer.Option(None, help="Inputs of a step. Default: 2048."),
    epochs: int | None = typer.Option(None, help="How often every input comes. Default: 1."),
    limit: int | None = typer.Option(None, help="Train on the first inputs only."),
    seed: int | None = typer.Option(None, help="Of first weights and of shuffling. Default: 0."),
    shuffle: bool | None = typer.Option(None, "--shuffle", help="Shuffle by blocks."),
    precision: str | None = typer.Option(
        None, help="Of the dense part: fp32, tf32 or bf16. Default: fp32."
    ),
    init_from: str | None = typer.Option(
        None, metavar="RUN", help="Begin with its weights and rows."
    ),
    settings: list[str] = typer.Option(
        [], "--set", metavar="KEY=VALUE", help="Any key of the config."
    ),
    resume: bool = typer.Option(False, "--resume", help="Go on from the newest checkpoint."),
    force: bool = typer.Option(False, "--force", help="Replace a run that is there."),
) -> None:
    """Train a model on a packed data set; what comes out is in the folder of the run.

    Example: slipstream train clicks --model dlrm --set dense.lr=0.05 --out run
    """
    from slipstream.data.dataset import Dataset
    from slipstream.training.loop import train as run
    from slipstream.training.state import Hooks, StoppedError

    flags = {
        "data": None if data is None else str(data),
        "model.name": model,
        "strategy": strategy,
        "ordering.kind": ordering,
        "placement.kind": placement,
        "skip.rule": skip,
        "skip.max_auc_loss": max_auc_loss,
        "device": device,
        "placement.fast_memory": fast_memory,
        "batch_size": batch_size,
        "epochs": epochs,
        "limit": limit,
        "seed": seed,
        "shuffle": shuffle,
        "precision": precision,
        "init_from": init_from,
    }
    if resume and force:
        raise ConfigError("Choose one of --resume (go on) and --force (begin anew).")
    chosen = (
        _resumed(to, config, flags, settings) if resume else chosen_config(config, flags, settings)
    )
    if not chosen.data:
        raise ConfigError("Say what to train on: slipstream train DATA --out RUN.")
    again = shlex.join(("slipstream", "train", "--resume", "--out", str(to)))
    with _asked_to_stop(again) as stop, training_progress() as report:
        hooks = Hooks(report, lambda text: err.print(text, soft_wrap=True), lambda: bool(stop))
        try:
            summary = run(
                Dataset.open(chosen.data), chosen, to, resume=resume, force=force, hooks=hooks
            )
        except StoppedError as stopped:
            raise KeyboardInterrupt(f"{stopped} To go on: {again}") from None
    _tell(summary, to)


def chosen_config(file: Path | None, flags: dict[str, Any], settings: list[str]) -> Config:
    """The configuration of a file, with flags and settings put over it, in this order.

    On a GPU, where nothing says which strategy, it is the one that is made for it.
    """
    from slipstream.config import Config

    config = _with_flags(Config.read(file) if file else Config(), flags).with_settings(settings)
    if file is None and config.device != "cpu":
        return _with_flags(Config(strategy="fast"), flags).with_settings(settings)
    return config


def _resumed(run: Path, file: Path | None, flags: dict[str, Any], settings: list[str]) -> Config:
    """The run's own configuration, with what is free to change changed."""
    from slipstream.config import Config
    from slipstream.training.run import Run

    begun = Run.open(run).config
    chosen = begun
    if file is not None:
        chosen = Config.read(file)
        chosen = replace(chosen, data=chosen.data or begun.data)
    return _with_flags(chosen, flags).with_settings(settings)


def _with_flags(config: Config, flags: dict[str, Any]) -> Config:
    import json

    given = {key: value for key, value in flags.items() if value is not None}
    return config.with_settings(f"{key}={json.dumps(value)}" for key, value in given.items())


@contextmanager
def _asked_to_stop(again: str) -> Iterator[list[int]]:
    """Ctrl-C and a friendly kill are noted; a second one ends the program at once.

    At once means without any tidying: a run survives that at any moment.
    """
    asked: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        asked.append(number)
        if len(asked) == 1:
            _write("Stopping, and saving what was trained; once more stops at once.")
            return
        err.show_cursor(True)
        _write(f"slipstream: Stopped at once. To go on from the last checkpoint: {again}")
        os._exit(130)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _write(text: str) -> None:
    """Straight to the terminal: a signal may come in the middle of any other writing."""
    begin = "\r\x1b[2K" if os.isatty(2) else ""  # in place of the line of progress
    with suppress(OSError):
        os.write(2, f"{begin}{text}\n".encode())


def _tell(summary: dict[str, Any], run: Path) -> None:
    def shown(name: str, form: str = ".4f") -> str:
        value = summary[name]
        return "undefined" if value is None else format(value, form)

    out.print(
        f"{run}: {summary['inputs_trained']:,} inputs trained in "
        f"{summary['train_seconds']:.1f} s ({human(summary['samples_per_second'])} inputs/s)",
        soft_wrap=True,
    )
    out.print(
        f"AUC {shown('auc')}, logloss {shown('logloss')}, normalized entropy "
        f"{shown('normalized_entropy')}, accuracy {shown('accuracy')}, calibration "
        f"{shown('calibration')} over {summary['inputs']:,} inputs",
        soft_wrap=True,
    )
    if summary["oracle_auc"] is not None and summary["auc"] is not None:
        out.print(
            f"The oracle's AUC is {summary['oracle_auc']:.4f}: "
            f"{summary['oracle_auc'] - summary['auc']:.4f} are left to learn.",
            soft_wrap=True,
        )
    if "carried" in summary:
        each = summary["carried"]["per_input"]
        out.print(
            f"Fast tier: {summary['hot_access_share']:.1%} of the rows that batches needed were in "
            f"it; for each input {each['rows_in']:.3g} rows ({human(each['bytes_in'])} bytes) came "
            f"and {each['rows_out']:.3g} ({human(each['bytes_out'])} bytes) went.",
            soft_wrap=True,
        )
        aside, waits = summary["carried"]["aside"], summary["waits"]
        out.print(
            f"{waits['steps']:,} steps waited for rows, {waits['seconds']:.3g} s in all"
            + (f"; {aside:,} did not fit the fast tier" if aside else ""),
            soft_wrap=True,
        )
    if "skipping" in summary:
        out.print(f"Skipping: {summary['skipping']['sentence']}", soft_wrap=True)
    curve = [f"{one['share']:.0%} {one['auc']:.4f}" for one in summary["curve"] if one["auc"]]
    if len(curve) > 1:
        out.print(f"AUC along the run: {', '.join(curve)}", soft_wrap=True)
