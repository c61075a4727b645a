"""Trains click-prediction models whose embedding tables are larger than fast memory.

Example:
    >>> import slipstream
    >>> dataset = slipstream.Dataset.open("clicks")
    >>> for batch in slipstream.Loader(dataset.train, 1024):
    ...     print(batch.dense.shape, batch.ids.shape, batch.n_valid)
    torch.Size([1024, 4]) torch.Size([1024, 6]) 1024
    torch.Size([1024, 4]) torch.Size([1024, 6]) 676
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.lazy import lazy_name
from slipstream.version import __version__

if TYPE_CHECKING:
    from slipstream.config import Config
    from slipstream.data.batch import Batch, ListBatch
    from slipstream.data.build import Lists, from_arrays, from_table
    from slipstream.data.dataset import Dataset, Part
    from slipstream.data.loader import Loader
    from slipstream.data.schema import Column, Schema, Table
    from slipstream.data.synthetic.synth import Recipe, synthesize
    from slipstream.data.verify import verify
    from slipstream.errors import CheckpointError, ConfigError, DataError, SlipstreamError
    from slipstream.models import MODELS, build_model
    from slipstream.order.order import InputOrder
    from slipstream.tables.module import EmbeddingTables
    from slipstream.tables.optimizers import Adagrad, Adam, RowwiseAdagrad, Sgd
    from slipstream.tables.spec import Feature, Init, TableSpec
    from slipstream.training.captured_step import CapturedStep
    from slipstream.training.estimate import estimate
    from slipstream.training.evaluate_run import evaluate_run
    from slipstream.training.export import export_run
    from slipstream.training.load_run import open_run
    from slipstream.training.loop import Hooks, train
    from slipstream.training.predict import predict_rows

__all__ = [
    "MODELS",
    "Adagrad",
    "Adam",
    "Batch",
    "CapturedStep",
    "CheckpointError",
    "Column",
    "Config",
    "ConfigError",
    "DataError",
    "Dataset",
    "EmbeddingTables",
    "Feature",
    "Hooks",
    "Init",
    "InputOrder",
    "ListBatch",
    "Lists",
    "Loader",
    "Part",
    "Recipe",
    "RowwiseAdagrad",
    "Schema",
    "Sgd",
    "SlipstreamError",
    "Table",
    "TableSpec",
    "__version__",
    "build_model",
    "estimate",
    "evaluate_run",
    "export_run",
    "from_arrays",
    "from_table",
    "open_run",
    "predict_rows",
    "synthesize",
    "train",
    "verify",
]

# Importing torch takes seconds, which `slipstream --help` should not: names are loaded when used.
_WHERE = {
    "config": ("Config",),
    "data.batch": ("Batch", "ListBatch"),
    "data.build": ("Lists", "from_arrays", "from_table"),
    "data.dataset": ("Dataset", "Part"),
    "data.loader": ("Loader",),
    "data.schema": ("Column", "Schema", "Table"),
    "data.synthetic.synth": ("Recipe", "synthesize"),
    "data.verify": ("verify",),
    "tables.module": ("EmbeddingTables",),
    "tables.optimizers": ("Adagrad", "Adam", "RowwiseAdagrad", "Sgd"),
    "tables.spec": ("Feature", "Init", "TableSpec"),
    "errors": ("CheckpointError", "ConfigError", "DataError", "SlipstreamError"),
    "models": ("MODELS", "build_model"),
    "order.order": ("InputOrder",),
    "training.captured_step": ("CapturedStep",),
    "training.estimate": ("estimate",),
    "training.evaluate_run": ("evaluate_run",),
    "training.export": ("export_run",),
    "training.loop": ("Hooks", "train"),
    "training.predict": ("predict_rows",),
    "training.load_run": ("open_run",),
}


def __getattr__(name: str) -> object:
    return lazy_name(__name__, _WHERE, name)


def __dir__() -> list[str]:
    return __all__
