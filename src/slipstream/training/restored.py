"""A run as it was last saved, ready to predict: what evaluate, predict and export begin with."""

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
from slipstream.tables.no_cache import Resident
from slipstream.tables.optimizers import Sgd
from slipstream.tables.plan import Placement
from slipstream.tables.tables import Embeddings
from slipstream.training.checkpoint import WholeCheckpoint, load, newest
from slipstream.training.fit import check_fits
from slipstream.training.run import Run

_TRIES = 5


@dataclass(frozen=True)
class Restored:
    """The model of a run, with the weights of its newest whole checkpoint.

    Args:
        folder: The run's folder.
        config: How it was trained.
        found: The checkpoint.
        schema: What the inputs of its data set consist of.
        engine: Rows and dense part. It predicts; optimizer state is not loaded.
        placement: Finds the rows of a batch.
        ended: Whether the run has come to its end.
    """

    folder: Path
    config: Config
    found: WholeCheckpoint
    schema: Schema
    engine: Engine
    placement: Placement
    ended: bool

    @property
    def position(self) -> int:
        """How many inputs of its order the run had gone through."""
        return int(self.found.state["training"]["position"])

    @property
    def stands(self) -> str:
        """A sentence about where the run stands."""
        if self.ended:
            return f"The run has ended, at input {self.position:,}."
        return f"The run has not ended: its newest checkpoint stands at input {self.position:,}."


def open_run(folder: str | Path, dataset: Dataset | None = None) -> Restored:
    """The model of a run that has ended, goes on, or was killed.

    Args:
        folder: The run's folder.
        dataset: What is to be predicted; one whose ids are not the run's is an error.

    Example:
        >>> restored = open_run("run")  # doctest: +SKIP
        >>> restored.position  # doctest: +SKIP
        1700
    """
    run = Run.open(Path(folder))
    config = run.config
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    for left in reversed(range(_TRIES)):
        found = last_saved(run)
        saved = found.state["data"]
        if dataset is not None:
            check_fits(dataset, saved, folder)
        schema = Schema.from_json(saved["schema"])
        model = _model(config, schema, saved["lengths"])
        tables = Embeddings(model.layout, seed=None)
        try:
            tensors, _ = load(found, tables.stores, state=False)
            break
        except CheckpointError:
            # A run that goes on removes old checkpoints, this one perhaps.
            if not left or found.path.exists():
                raise
    dense = DensePart(model, config.dense, config.precision)
    dense.load_weights(tensors)
    model.eval()
    placement = Resident(model.layout, [column.name for column in schema.singles])
    ended = run.summary is not None
    return Restored(run.folder, config, found, schema, Engine(tables, dense), placement, ended)


def last_saved(run: Run) -> WholeCheckpoint:
    """The newest whole checkpoint of a run; an error if there is none."""
    for left in reversed(range(_TRIES)):
        try:
            found = newest(run.checkpoints)
            break
        except CheckpointError:
            if not left:
                raise
    if found is None:
        raise CheckpointError(
            f"The run in {run.folder} has saved no checkpoint yet. It does so at its end, and "
            "every so often with checkpoint.every_inputs or checkpoint.every_minutes."
        )
    return found


def data_of(restored: Restored, data: str | Path | None = None) -> Dataset:
    """The data set that a run was trained on.

    Args:
        restored: The run.
        data: Where it is, if it is not where the run's configuration says.
    """
    return training_data(restored.folder, restored.config, restored.found, data)


def training_data(
    folder: Path, config: Config, found: WholeCheckpoint, data: str | Path | None = None
) -> Dataset:
    """The data set that a run was trained on, and no other."""
    where = Path(data or config.data)
    if not data and (not config.data or not where.is_dir()):
        raise DataError(
            f"The data set of the run in {folder} is needed for its dictionary, and "
            f"{'is not named in its configuration' if not config.data else f'{where} is not there'}"
            ". Say where it is."
        )
    dataset = Dataset.open(where)
    if dataset.manifest.checksum != found.state["dataset"]:
        check_fits(dataset, found.state["data"], folder)
    return dataset


def _model(config: Config, schema: Schema, lengths: dict[str, Any]) -> Model:
    """The model as it was trained, but for optimizers: predicting needs no state beside rows."""
    settings, tables = config.embedding.settings()
    options = dict(config.model.options)
    # The true ones are among the saved weights.
    nothing = ([0.0] * len(schema.dense), [1.0] * len(schema.dense))
    return build_model(
        config.model.name,
        schema,
        lengths=lengths,
        seed=config.seed,
        table_settings={**settings, "optimizer": Sgd()},
        tables={
            name: {key: value for key, value in one.items() if key != "optimizer"}
            for name, one in tables.items()
        },
        statistics=nothing if options.get("normalize_dense") else None,
        **options,
    )
