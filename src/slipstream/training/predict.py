"""Predicts probabilities for raw rows with the newest checkpoint of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from slipstream.arrays import Array
from slipstream.data.dataset import Part
from slipstream.data.formats.spec import LogSpec
from slipstream.data.prepare.encode import Encoded, RowEncoder
from slipstream.errors import ConfigError, DataError
from slipstream.training.evaluation import predictions
from slipstream.training.load_run import LoadedRun, dataset_of_run, open_run


def predict_rows(
    run: str | Path,
    spec: LogSpec,
    files: Sequence[str | Path],
    *,
    data: str | Path | None = None,
    batch_size: int | None = None,
    bad_rows: Literal["error", "skip"] = "error",
    warn: Callable[[str], None] = lambda _: None,
) -> Iterator[Array]:
    """Predict the probability of a click for each row of some logs.

    Returns an iterator over arrays of some thousand rows, in the order of the logs.

    Args:
        run: The folder of a run.
        spec: The format of the logs; see `slipstream.data.formats.log_spec`.
        files: The logs; they need no label.
        data: The run's data set, for its dictionary, if it was moved.
        batch_size: Examples to predict at once. Default: as in the run.
        bad_rows: For a row that cannot be read, `error` raises an error and `skip` returns NaN.
        warn: Called with each message for the user.

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
    loaded = open_run(run)
    for warning in loaded.checkpoint.warnings:
        warn(warning)
    if not loaded.ended:
        warn(loaded.status)
    dataset = dataset_of_run(loaded.folder, loaded.config, loaded.checkpoint, data)
    encoder = RowEncoder(dataset, spec, files)
    size = batch_size or loaded.config.batch_size
    return _blocks(loaded, encoder, size, bad_rows == "skip", warn)


def _blocks(
    loaded: LoadedRun, encoder: RowEncoder, size: int, skip: bool, warn: Callable[[str], None]
) -> Iterator[Array]:
    skipped = 0
    for rows in encoder.blocks():
        if rows.bad and not skip:
            first = rows.bad[0]
            raise DataError(
                f"{encoder.place(first)}: {first.what}. Correct the file, or use --bad-rows skip, "
                "which predicts nan for such rows."
            )
        if rows.bad and not skipped:
            warn(f"{encoder.place(rows.bad[0])}: {rows.bad[0].what}. Its prediction is nan.")
        skipped += len(rows.bad)
        yield _probabilities(loaded, rows, size)
    if skipped:
        warn(f"{skipped:,} rows could not be read: their predictions are nan.")


def _probabilities(loaded: LoadedRun, rows: Encoded, size: int) -> Array:
    probabilities: Array = np.full(len(rows.good), np.nan, dtype=np.float32)
    part = Part("rows", loaded.schema, [rows.inputs])
    batches = predictions(loaded.engine, loaded.placement, part, size)
    logits = [logits[: batch.n_valid].float() for batch, logits in batches]
    if logits:
        probabilities[rows.good] = torch.sigmoid(torch.cat(logits)).numpy()
    return probabilities
