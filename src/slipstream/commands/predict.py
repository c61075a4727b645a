"""`slipstream predict`: raw rows in, probabilities out."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import typer

from slipstream.commands.terminal import err, says_what_is_wrong


@says_what_is_wrong
def predict(
    run: Path = typer.Argument(..., metavar="RUN", help="The folder of a run."),
    format: str = typer.Argument(..., metavar="FORMAT", help="criteo, avazu or table."),
    inputs: list[Path] = typer.Argument(..., metavar="INPUT...", help="Files of raw rows."),
    to: Path | None = typer.Option(
        None, "--out", metavar="FILE", help="Where to write; left out, to the terminal or pipe."
    ),
    schema: Path | None = typer.Option(None, help="For table: the schema file."),
    data: Path | None = typer.Option(
        None, help="The run's data set, for its dictionary, if it is not where it was."
    ),
    batch_size: int | None = typer.Option(
        None, help="Inputs to predict at once; left out, as in training."
    ),
    bad_rows: str = typer.Option(
        "error", help="error, or skip: nan in the place of rows that cannot be read."
    ),
) -> None:
    """Predict the probability of a click for raw rows, with the ids of the run's data set.

    One number a line, in the order of the rows, without a header: line 7 belongs to row 7. The
    rows look as those that were given to prepare, and may lack the label.

    Example: slipstream predict run criteo new.tsv --out clicks.txt
    """
    from slipstream.data.formats import log_spec
    from slipstream.training.predict import predict_rows

    blocks = predict_rows(
        run,
        log_spec(format, {"schema": schema}),
        inputs,
        data=data,
        batch_size=batch_size,
        bad_rows=bad_rows,  # type: ignore[arg-type]
        say=lambda text: err.print(text, soft_wrap=True),
    )
    count = 0
    with _written(to) as file:
        for block in blocks:
            count += len(block)
            # The shortest text that is read as the same float32.
            file.write("".join(f"{value!s}\n" for value in block))
    if to is not None:
        err.print(f"{to}: {count:,} predictions", soft_wrap=True)


@contextlib.contextmanager
def _written(path: Path | None) -> Iterator[IO[str]]:
    """A file that has its name once it is whole, or the output of this process."""
    if path is None:
        try:
            yield sys.stdout
            sys.stdout.flush()
        except BrokenPipeError:  # whoever reads our output has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(0) from None
        return
    aside = path.with_name(f"{path.name}.partial")
    try:
        with aside.open("w", encoding="ascii") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
