"""The sections of the configuration, with their defaults and meanings."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from slipstream.config.kinds import (
    Amount,
    Count,
    Fraction,
    Portion,
    Positive,
    Proportion,
    Rate,
    Share,
    SizeOrAuto,
    about,
)
from slipstream.config.section import Settings, WrongKeyError, join, shown
from slipstream.errors import did_you_mean

if TYPE_CHECKING:
    from slipstream.tables.optimizers import RowOptimizer

_MODEL = about("The model's name", registry="slipstream.models:MODELS", own=True)
_LR = about("Learning rate; null takes the optimizer's default")
_ROW_OPTIMIZER = about(
    "Optimizer of the embedding rows",
    registry="slipstream.tables.optimizers:OPTIMIZERS",
    own=True,
)
_OPTIONS = about("The optimizer's own keys, such as eps, weight_decay or beta1")
_STORAGE = about("Number format of the embedding rows", registry="slipstream.tables.spec:STORAGES")
_DENSE_OPTIMIZER = about(
    "Optimizer of the dense weights", registry="slipstream.pipeline.dense:OPTIMIZERS"
)
_ORDER = about(
    "How examples are ordered; null takes the strategy's order",
    registry="slipstream.pipeline.strategies:ORDERS",
)
_PLACEMENT = about(
    "Which embedding rows are in the fast tier; null takes the strategy's placement",
    registry="slipstream.pipeline.strategies:PLACEMENTS",
)


class ModelSettings(Settings, frozen=True, kw_only=True):
    """The model and its own keys."""

    REST: ClassVar[str] = "options"

    name: Annotated[str, _MODEL] = "dlrm"
    options: Annotated[dict[str, Any], about("The model's own keys, such as layer sizes")] = {}

    def __post_init__(self) -> None:
        super().__post_init__()
        if "name" in self.options:
            raise WrongKeyError("name", " is given twice.")


class TableSettings(Settings, frozen=True, kw_only=True):
    """The settings of one embedding table; without them it has those of all tables."""

    BRIEF: ClassVar[bool] = True

    dim: Annotated[Count | None, about("Numbers in a row; null takes the model's")] = None
    optimizer: Annotated[str | None, _ROW_OPTIMIZER] = None
    lr: Annotated[Rate | None, _LR] = None
    options: Annotated[dict[str, Any] | None, _OPTIONS] = None
    storage: Annotated[str | None, _STORAGE] = None


class EmbeddingSettings(Settings, frozen=True, kw_only=True):
    """How the rows of the embedding tables are stored and updated."""

    optimizer: Annotated[str, _ROW_OPTIMIZER] = "rowwise_adagrad"
    lr: Annotated[Rate | None, _LR] = None
    options: Annotated[dict[str, Any], _OPTIONS] = {}
    storage: Annotated[str, _STORAGE] = "fp32"
    tables: dict[str, TableSettings] = {}

    def settings(self) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """The settings of all tables, and those of single tables where they differ.

        A table with another optimizer inherits neither the learning rate nor other options.

        Example:
            >>> adam = TableSettings(dim=4, optimizer="adam")
            >>> embedding = EmbeddingSettings(optimizer="sgd", lr=0.5, tables={"ad": adam})
            >>> everywhere, tables = embedding.settings()
            >>> everywhere
            {'optimizer': Sgd(lr=0.5, weight_decay=0.0), 'storage': 'fp32'}
            >>> tables
            {'ad': {'optimizer': Adam(lr=0.001, beta1=0.9, beta2=0.999, eps=1e-08), 'dim': 4}}
        """
        everywhere = {
            "optimizer": self._optimizer(TableSettings(), "embedding"),
            "storage": self.storage,
        }
        tables = {}
        for name, table in self.tables.items():
            optimizer = self._optimizer(table, f"embedding.tables.{name}")
            own = {"optimizer": optimizer, "dim": table.dim, "storage": table.storage}
            tables[name] = {key: value for key, value in own.items() if value is not None}
        return everywhere, tables

    def _optimizer(self, table: TableSettings, place: str) -> RowOptimizer:
        from slipstream.tables.optimizers import OPTIMIZERS, option_names, row_optimizer

        name = table.optimizer or self.optimizer
        known = option_names(name)
        options: dict[str, Any] = {}
        for layer in (self, table) if name == self.optimizer else (table,):
            where = "embedding" if layer is self else place
            for option, value in (layer.options or {}).items():
                path = join(where, "options", option)
                if option not in known:
                    hint = did_you_mean(option, known) or " Leave it out."
                    problem = f" is {shown(value)}, but {name} has no {option}.{hint}"
                    raise WrongKeyError(path, problem)
                if problem := OPTIMIZERS[name].problem(option, value):
                    raise WrongKeyError(path, problem)
            options |= {"lr": layer.lr} if layer.lr is not None else {}
            options |= layer.options or {}
        return row_optimizer(name, **options)


class DenseSettings(Settings, frozen=True, kw_only=True):
    """How the weights of the dense part are updated."""

    optimizer: Annotated[str, _DENSE_OPTIMIZER] = "adagrad"
    lr: Annotated[Rate | None, _LR] = None
    weight_decay: Annotated[
        Rate, about("Factor; this multiple of a weight is added to its gradient")
    ] = 0.0
    clip: Annotated[
        Positive | None, about("Limit of the norm of the gradient; null sets no limit")
    ] = None


class ScheduleSettings(Settings, frozen=True, kw_only=True):
    """How the learning rates change during the run; the same for all weights."""

    warmup_inputs: Annotated[
        Amount, about("Examples at the start, while the learning rates rise from 0")
    ] = 0
    decay: Annotated[
        Literal["none", "linear", "cosine"], about("How learning rates fall to 0 at the end")
    ] = "none"


class OrderSettings(Settings, frozen=True, kw_only=True):
    """The order of the examples."""

    kind: Annotated[str | None, _ORDER] = None


class SkipSettings(Settings, frozen=True, kw_only=True):
    """Which examples are left out."""

    rule: Annotated[
        str | None,
        about(
            "The skip rule; null takes the strategy's",
            registry="slipstream.skip.registry:NAMES",
            own=True,
        ),
    ] = None
    target: Annotated[
        Portion,
        about(
            "Share of examples to skip; for published of hot examples, for freeze of row updates"
        ),
    ] = 0.3
    target_schedule: Annotated[
        tuple[Portion, ...],
        about("Instead of target: a share for each decision; the last one is used again"),
    ] = ()
    warmup: Annotated[
        Proportion | None,
        about(
            "Share of an epoch that is trained before the first decision; null is 0.1. For "
            "published a share of the hot batches; null is 0.05 for tbsm and 0.03 for others"
        ),
    ] = None
    interval: Annotated[Fraction, about("Share of an epoch from one decision to the next")] = 0.05
    lag: Annotated[
        Count | None,
        about("Batches from a decision to its effect; null chooses it"),
    ] = None
    options: Annotated[
        dict[str, Any], about("The rule's own options; see docs/skipping.md", "a mapping")
    ] = {}


class PlacementSettings(Settings, frozen=True, kw_only=True):
    """The fast tier, for strategies that have one."""

    kind: Annotated[str | None, _PLACEMENT] = None
    fast_memory: Annotated[
        SizeOrAuto,
        about(
            "Size of the fast tier, optimizer state included; a share is a share of all rows",
            "a size such as 256MiB, a share such as 5%, or auto",
        ),
    ] = "5%"
    window: Annotated[
        Count | None, about("Limit of the batches to prefetch rows for; null takes the strategy's")
    ] = None


class EvaluateSettings(Settings, frozen=True, kw_only=True):
    """When the evaluation part is scored. It is always scored at the end."""

    at: Annotated[tuple[Share, ...], about("After these shares of the run")] = (
        0.5,
        0.6,
        0.7,
        0.8,
        0.9,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(first >= second for first, second in pairwise(self.at)):
            raise WrongKeyError("at", f" is {shown(list(self.at))}; shares must rise.")


class EarlyStoppingSettings(Settings, frozen=True, kw_only=True):
    """When a run ends early because the validation loss stops improving."""

    every_inputs: Annotated[
        Count | None,
        about("Examples between two scorings of the validation part; null never stops early"),
    ] = None
    patience: Annotated[
        Count, about("The run ends after this many scorings without a better logloss")
    ] = 3


class CheckpointSettings(Settings, frozen=True, kw_only=True):
    """When the state of a run is saved. It is always saved at the end."""

    every_inputs: Annotated[
        Count | None, about("Examples between two checkpoints; null sets no interval")
    ] = None
    every_minutes: Annotated[
        Positive | None, about("Minutes between two checkpoints; null sets no interval")
    ] = None


class LogSettings(Settings, frozen=True, kw_only=True):
    """Where metrics go besides metrics.jsonl."""

    trackers: Annotated[
        tuple[str, ...],
        about(
            "Trackers that receive every metric",
            registry="slipstream.training.trackers:TRACKERS",
            own=True,
        ),
    ] = ()
