"""Loads the newest checkpoint of a run for prediction: used by evaluate, predict and export."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from slipstream.config import Config
from slipstream.data.dataset import Dataset
from slipstream.data.schema import Schema
from slipstream.errors import CheckpointError, DataError
from slipstream.models import Model, build_model
from slipstream.pipeline.dense import DensePart
from slipstream.pipeline.engine import Engine
from slipstream.tables.no_cache import NoCache
from slipstream.tables.optimizers import Sgd
from slipstream.tables.plan import Placement
from slipstream.tables.tables import Embeddings
from slipstream.training.checkpoint import WholeCheckpoint, load, newest
from slipstream.training.dataset_compatibility import check_same_ids
from slipstream.training.run import Run

_TRIES = 5


@dataclass(frozen=True)
class LoadedRun:
    """The model of a run, with the weights of its newest complete checkpoint."""

    folder: Path
    config: Config
    checkpoint: WholeCheckpoint
    schema: Schema  # the columns of its data set
    engine: Engine  # rows and dense part, for prediction; optimizer state is not loaded
    placement: Placement  # finds the rows of a batch
    ended: bool  # whether the run has ended

    @property
    def position(self) -> int:
        """The number of examples of the order that the run had trained or skipped."""
        return int(self.checkpoint.state["training"]["position"])

    @property
    def status(self) -> str:
        """A sentence about how far the run is."""
        if self.ended:
            return f"The run has ended, at example {self.position:,}."
        return f"The run has not ended: its newest checkpoint is at example {self.position:,}."


def open_run(folder: str | Path, dataset: Dataset | None = None) -> LoadedRun:
    """Load the model of a run that has ended, is still training, or was killed.

    Args:
        folder: The run's folder.
        dataset: The data set to predict; an error if its ids are not the run's.

    Example:
        >>> run = open_run("run")  # doctest: +SKIP
        >>> run.position  # doctest: +SKIP
        1700
    """
    run = Run.open(Path(folder))
    config = run.config
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    for tries_left in reversed(range(_TRIES)):
        checkpoint = newest_checkpoint(run)
        saved = checkpoint.state["data"]
        if dataset is not None:
            check_same_ids(dataset, saved, folder)
        schema = Schema.from_json(saved["schema"])
        model = _model(config, schema, saved["lengths"])
        tables = Embeddings(model.layout, seed=None)
        try:
            tensors, _ = load(checkpoint, tables.stores, state=False)
            break
        except CheckpointError:
            # A run that is still training may just have removed this checkpoint.
            if not tries_left or checkpoint.path.exists():
                raise
    dense = DensePart(model, config.dense, config.precision)
    dense.load_weights(tensors)
    model.eval()
    placement = NoCache(model.layout, [column.name for column in schema.singles])
    engine, ended = Engine(tables, dense), run.summary is not None
    return LoadedRun(run.folder, config, checkpoint, schema, engine, placement, ended)


def newest_checkpoint(run: Run) -> WholeCheckpoint:
    """The newest complete checkpoint of a run; an error if there is none."""
    for tries_left in reversed(range(_TRIES)):
        try:
            checkpoint = newest(run.checkpoints)
            break
        except CheckpointError:
            if not tries_left:
                raise
    if checkpoint is None:
        raise CheckpointError(
            f"The run in {run.folder} has saved no checkpoint yet. A run saves one at its end; set "
            "checkpoint.every_inputs or checkpoint.every_minutes to save more."
        )
    return checkpoint


def dataset_of_run(
    folder: Path, config: Config, checkpoint: WholeCheckpoint, data: str | Path | None = None
) -> Dataset:
    """The data set that a run was trained on, at `data` if it was moved; an error for other ids."""
    path = Path(data or config.data)
    if not data and (not config.data or not path.is_dir()):
        missing = f"There is no folder {path}" if config.data else "Its configuration names none"
        raise DataError(
            f"The data set of the run in {folder} is needed for its dictionary. {missing}: pass "
            "the folder of the data set (--data)."
        )
    dataset = Dataset.open(path)
    if dataset.manifest.checksum != checkpoint.state["dataset"]:
        check_same_ids(dataset, checkpoint.state["data"], folder)
    return dataset


def _model(config: Config, schema: Schema, lengths: dict[str, Any]) -> Model:
    """The model as it was trained, without optimizer state, which prediction does not need."""
    settings, tables = config.embedding.settings()
    options = config.model.options
    # The real statistics are among the saved weights.
    statistics = ([0.0] * len(schema.dense), [1.0] * len(schema.dense))
    return build_model(
        config.model.name,
        schema,
        lengths=lengths,
        seed=config.seed,
        table_settings={**settings, "optimizer": Sgd()},
        tables={
            name: {key: value for key, value in table.items() if key != "optimizer"}
            for name, table in tables.items()
        },
        statistics=statistics if options.get("normalize_dense") else None,
        **options,
    )
