"""`slipstream predict`: raw rows in, probabilities out."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import typer

from slipstream.cli.terminal import warn
from slipstream.errors import ConfigError


def predict(
    run: Path = typer.Argument(..., metavar="RUN", help="The folder of a run."),
    format: str = typer.Argument(..., metavar="FORMAT", help="criteo, avazu or table."),
    inputs: list[Path] = typer.Argument(..., metavar="INPUT...", help="The files of the log."),
    to: Path | None = typer.Option(
        None, "--out", metavar="FILE", help="The file to write. Default: stdout."
    ),
    schema: Path | None = typer.Option(None, help="For table: the schema file, as for prepare."),
    data: Path | None = typer.Option(None, help="The run's data set, if it was moved."),
    batch_size: int | None = typer.Option(None, help="Examples to predict at once."),
    bad_rows: str = typer.Option(
        "error", help="For a line that cannot be read: error, or skip, which prints nan."
    ),
) -> None:
    """Predict the probability of a click for each line of a raw log.

    Prints one number for each line of the log, in the same order. The log has the format of the
    log that was prepared; the label may be missing.

    Example: slipstream predict run criteo new.tsv --out clicks.txt
    """
    from slipstream.data.formats import log_spec
    from slipstream.training.predict import predict_rows

    if to is not None and (to.is_dir() or not to.parent.is_dir()):
        problem = f"{to} is a folder" if to.is_dir() else f"There is no folder {to.parent}"
        raise ConfigError(f"{problem}. --out needs the name of a file in an existing folder.")
    spec, count = log_spec(format, {"schema": schema}), 0
    options = {"data": data, "batch_size": batch_size, "bad_rows": bad_rows}
    blocks = predict_rows(run, spec, inputs, warn=warn, **options)  # type: ignore[arg-type]
    with _output(to) as file:
        for block in blocks:
            count += len(block)
            # The shortest text that parses to the same float32.
            file.write("".join(f"{value!s}\n" for value in block))
    if to is not None:
        warn(f"{to}: {count:,} predictions")


@contextlib.contextmanager
def _output(path: Path | None) -> Iterator[IO[str]]:
    """A file that gets its name once it is complete, or stdout."""
    if path is None:
        try:
            yield sys.stdout
            sys.stdout.flush()
        except BrokenPipeError:  # the reader has closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(0) from None
        return
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("w", encoding="ascii") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
