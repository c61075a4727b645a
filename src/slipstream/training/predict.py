"""Probabilities for raw rows, by a run as it was last saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from slipstream.data.dataset import Part
from slipstream.data.formats.spec import LogSpec
from slipstream.data.inputs import Array
from slipstream.data.prepare.encode import Encoded, RowEncoder
from slipstream.errors import ConfigError, DataError
from slipstream.training.evaluation import predictions
from slipstream.training.restored import Restored, data_of, open_run


def predict_rows(
    run: str | Path,
    spec: LogSpec,
    files: Sequence[str | Path],
    *,
    data: str | Path | None = None,
    batch_size: int | None = None,
    bad_rows: Literal["error", "skip"] = "error",
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[Array]:
    """The probability of a click for each row of some logs, in order, some thousands at a time.

    Args:
        run: The folder of a run.
        spec: What the logs look like: see `slipstream.data.formats.log_spec`.
        files: The logs; they need no label.
        data: The run's data set, for its dictionary, if it is not where it was.
        batch_size: Inputs to predict at once; by default as in the run.
        bad_rows: What to do with a row that cannot be read: raise an error, or skip it, which
            gives NaN in its place.
        say: Told a sentence that a user should see.

    Example:
        >>> from slipstream.data.formats import log_spec
        >>> blocks = predict_rows("run", log_spec("criteo", {}), ["new.tsv"])  # doctest: +SKIP
        >>> np.concatenate(list(blocks)).mean()  # doctest: +SKIP
        np.float32(0.2563)
    """
    if bad_rows not in ("error", "skip"):
        raise ConfigError(f"bad_rows is {bad_rows!r}; choose error or skip.")
    if batch_size is not None and batch_size < 1:
        raise ConfigError(f"batch_size is {batch_size}; it must be at least 1.")
    opened = open_run(run)
    for warning in opened.found.warnings:
        say(warning)
    if not opened.ended:
        say(opened.stands)
    encoder = RowEncoder(data_of(opened, data), spec, files)
    size = batch_size or opened.config.batch_size
    return _blocks(opened, encoder, size, bad_rows == "skip", say)


def _blocks(
    opened: Restored, encoder: RowEncoder, size: int, skip: bool, say: Callable[[str], None]
) -> Iterator[Array]:
    skipped = 0
    for rows in encoder.blocks():
        if rows.bad and not skip:
            first = rows.bad[0]
            raise DataError(
                f"{encoder.place(first)}: {first.what}. Mend the file, or have nan in the place "
                "of such rows with --bad-rows skip."
            )
        if rows.bad and not skipped:
            say(f"{encoder.place(rows.bad[0])}: {rows.bad[0].what}. Its prediction is nan.")
        skipped += len(rows.bad)
        yield _probabilities(opened, rows, size)
    if skipped:
        say(f"{skipped:,} rows could not be read: their predictions are nan.")


def _probabilities(opened: Restored, rows: Encoded, size: int) -> Array:
    out: Array = np.full(len(rows.good), np.nan, dtype=np.float32)
    part = Part("rows", opened.schema, [rows.inputs])
    made = predictions(opened.engine, opened.placement, part, size)
    logits = [logits[: batch.n_valid].float() for batch, logits in made]
    if logits:
        out[rows.good] = torch.sigmoid(torch.cat(logits)).numpy()
    return out
