"""The groups of keys of a run's configuration, with their defaults and meanings."""

# ruff: noqa: RUF009 - `key` makes a field, as `dataclasses.field` does
from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from slipstream.config.keys import Section, WrongKeyError, key, shown

if TYPE_CHECKING:
    from slipstream.tables.optimizers import RowOptimizer

# The same names as in `embedding/`, which takes seconds to import; a test compares them.
RowOptimizerName = Literal["sgd", "adagrad", "rowwise_adagrad", "adam"]
StorageName = Literal["fp32", "bf16", "split-bf16", "fp64"]
InitName = Literal["uniform", "normal", "zeros"]
# And those in `pipeline/strategies.py`.
OrderingName = Literal["as-is", "apart", "cold-first", "split"]
PlacementName = Literal["slow", "popular", "learned", "lookahead", "popular+lookahead"]

ROW_LR = {"sgd": 0.1, "adagrad": 0.1, "rowwise_adagrad": 0.1, "adam": 0.001}
DENSE_LR = {"sgd": 0.1, "adagrad": 0.01, "adam": 0.001}
"""Learning rates where none is given: what did best on built-in data; 0.1 of sgd is DLRM's."""
_ROW_OPTIONS = {
    "sgd": ("weight_decay",),
    "adagrad": ("eps", "weight_decay"),
    "rowwise_adagrad": ("eps", "weight_decay"),
    "adam": ("eps", "beta1", "beta2"),
}
_OPTIONS = ("eps", "weight_decay", "beta1", "beta2")
_ROW_LR_TEXT = "Learning rate; null is 0.001 for adam, 0.1 for the others"
_DENSE_LR_TEXT = "Learning rate; null is 0.1 for sgd, 0.01 for adagrad, 0.001 for adam"
_AS_WHOLE = "null is as for all tables"


@dataclass(frozen=True)
class Model(Section):
    """Which model, and its own keys."""

    WHERE: ClassVar[str] = "model"
    REST: ClassVar[str] = "options"

    name: str = key("dlrm", "The model", pattern="[a-zA-Z0-9_]+", allowed="the name of a model")
    options: dict[str, Any] = key(dict, "The model's own keys: sizes of its layers and so on")

    def __post_init__(self) -> None:
        super().__post_init__()
        if "name" in self.options:
            raise WrongKeyError("model", "name", " is given twice.")


@dataclass(frozen=True)
class Init(Section):
    """What rows are before they are trained."""

    WHERE: ClassVar[str] = "embedding.init"

    kind: InitName = key("uniform", "What rows are before they are trained")
    scale: float | None = key(
        None, "Bound of uniform values, deviation of normal ones; null is 1 / sqrt(rows)", least=0
    )


@dataclass(frozen=True)
class Table(Section):
    """What one embedding table has of its own."""

    WHERE: ClassVar[str] = "embedding.tables.NAME"
    BRIEF: ClassVar[bool] = True

    dim: int | None = key(None, "Elements of a row; null is the model's", least=1)
    optimizer: RowOptimizerName | None = key(None, f"How rows move; {_AS_WHOLE}")
    lr: float | None = key(None, f"Learning rate; {_AS_WHOLE}", least=0)
    eps: float | None = key(None, f"Keeps divisions from zero; {_AS_WHOLE}", least=0)
    weight_decay: float | None = key(None, f"Share of a touched row; {_AS_WHOLE}", least=0)
    beta1: float | None = key(None, f"Of adam; {_AS_WHOLE}", least=0, below=1)
    beta2: float | None = key(None, f"Of adam; {_AS_WHOLE}", least=0, below=1)
    storage: StorageName | None = key(None, f"How rows are kept; {_AS_WHOLE}")
    init: Init | None = key(None, f"What rows are before they are trained; {_AS_WHOLE}")


@dataclass(frozen=True)
class Embedding(Section):
    """How the rows of embedding tables are kept and moved."""

    WHERE: ClassVar[str] = "embedding"

    optimizer: RowOptimizerName = key("rowwise_adagrad", "How rows move")
    lr: float | None = key(None, _ROW_LR_TEXT, least=0)
    eps: float | None = key(None, "Keeps divisions from zero; null is the optimizer's", least=0)
    weight_decay: float | None = key(None, "Times a touched row, joins its gradient", least=0)
    beta1: float | None = key(None, "Share of the mean that adam keeps", least=0, below=1)
    beta2: float | None = key(None, "Share of the mean square that adam keeps", least=0, below=1)
    storage: StorageName = key("fp32", "How rows are kept")
    init: Init | None = key(
        None, "What rows are before they are trained; null is what is customary for the model"
    )
    tables: dict[str, Table] = key(dict, "What tables have of their own, by name")

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_options(self, self.optimizer, "embedding", "")
        for name, table in self.tables.items():
            _check_options(table, table.optimizer or self.optimizer, "embedding", f"tables.{name}.")

    def settings(self) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """What holds for all tables, and what single ones have of their own.

        A table whose optimizer is another one takes nothing of what is set for all: neither the
        learning rate nor anything else of one optimizer suits the next.

        Example:
            >>> adam = Table(dim=4, optimizer="adam")
            >>> embedding = Embedding(optimizer="sgd", lr=0.5, tables={"ad": adam})
            >>> everywhere, tables = embedding.settings()
            >>> everywhere
            {'optimizer': Sgd(lr=0.5, weight_decay=0.0), 'storage': 'fp32'}
            >>> tables
            {'ad': {'optimizer': Adam(lr=0.001, beta1=0.9, beta2=0.999, eps=1e-08), 'dim': 4}}
        """
        everywhere = {"optimizer": self._optimizer(Table()), "storage": self.storage}
        everywhere |= _init(self.init)
        tables = {}
        for name, table in self.tables.items():
            tables[name] = {"optimizer": self._optimizer(table), **_init(table.init)}
            own = {"dim": table.dim, "storage": table.storage}
            tables[name] |= {key: value for key, value in own.items() if value is not None}
        return everywhere, tables

    def _optimizer(self, table: Table) -> RowOptimizer:
        from slipstream.tables.optimizers import row_optimizer

        name = table.optimizer or self.optimizer
        layers = (self, table) if name == self.optimizer else (table,)
        options = {"lr": ROW_LR[name]}
        for layer in layers:
            given = {option: getattr(layer, option) for option in ("lr", *_OPTIONS)}
            options.update({option: v for option, v in given.items() if v is not None})
        return row_optimizer(name, **options)


@dataclass(frozen=True)
class Dense(Section):
    """How the dense part of the model is trained."""

    WHERE: ClassVar[str] = "dense"

    optimizer: Literal["sgd", "adagrad", "adam"] = key("adagrad", "How weights move")
    lr: float | None = key(None, _DENSE_LR_TEXT, least=0)
    eps: float | None = key(None, "Keeps divisions from zero; null is the optimizer's", least=0)
    weight_decay: float | None = key(None, "Times the weight, joins its gradient", least=0)
    clip: float | None = key(None, "Longest gradient; a longer one is shortened to it", above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eps is not None and self.optimizer == "sgd":
            raise WrongKeyError(
                "dense", "eps", f" is {self.eps}, but sgd has no eps; leave it out."
            )

    @property
    def rate(self) -> float:
        """The learning rate that holds."""
        return DENSE_LR[self.optimizer] if self.lr is None else self.lr


@dataclass(frozen=True)
class Schedule(Section):
    """How learning rates change, by the inputs that were trained; the same for both parts."""

    WHERE: ClassVar[str] = "schedule"

    warmup_inputs: int = key(0, "Learning rates rise from 0 over so many inputs", least=0)
    decay: Literal["none", "linear", "cosine"] = key("none", "How learning rates fall")
    decay_start: int = key(0, "The input from which they fall, until the end", least=0)
    final: float = key(0.0, "Share of the learning rate that is left at the end", least=0, most=1)


@dataclass(frozen=True)
class Ordering(Section):
    """In what order inputs come."""

    WHERE: ClassVar[str] = "ordering"

    kind: OrderingName | None = key(None, "How inputs are ordered; null is as the strategy says")
    segment: int = key(64, "Batches that are sorted apart together", least=1)
    lag: int | None = key(
        None, "Segments from a decision on the rate to its effect; null is the fewest", least=1
    )
    validation_inputs: int = key(
        8192, "The first inputs of the validation part, whose loss the rate follows", least=1
    )


@dataclass(frozen=True)
class Placement(Section):
    """Where rows live, for strategies with a fast tier."""

    WHERE: ClassVar[str] = "placement"

    kind: PlacementName | None = key(None, "Where rows live; null is as the strategy says")
    fast_memory: str = key(
        "5%",
        "Size of the fast tier, optimizer state counted: bytes, a share of all rows, or auto",
        pattern=r"auto|[0-9]+(\.[0-9]+)?\s*(%|[kKmMgGtT]?(i?[bB])?)",
        allowed="a size such as 256MiB, a share such as 5%, or auto",
    )
    window: int | None = key(
        None,
        "Most batches to look ahead; null is 200 for bagpipe, 8 for fast (on a GPU 12 to 192), "
        "else 1",
        least=1,
    )
    refresh_batches: int | None = key(
        None,
        "Choose the kept rows anew after so many batches, where the placement does; null is "
        "0.25 % of an epoch for hotline, 4 % for fast",
        least=1,
    )
    decay: float = key(
        0.78,
        "What is left of the recent accesses after 1 % of an epoch; all others are remembered 8 "
        "times as long",
        least=0,
        most=1,
    )


@dataclass(frozen=True)
class Evaluate(Section):
    """When and how predictions are scored; at the end they always are."""

    WHERE: ClassVar[str] = "evaluate"

    at: tuple[float, ...] = key(
        (0.5, 0.6, 0.7, 0.8, 0.9),
        "After which shares of the run the evaluation part is scored, besides at the end",
        above=0,
        below=1,
    )
    auc: Literal["exact", "bounded"] = key(
        "exact", "exact keeps 4 bytes an input; bounded keeps 4 MiB and states its error"
    )
    batch_size: int | None = key(None, "Inputs of a batch; null is as in training", least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(first >= second for first, second in pairwise(self.at)):
            raise WrongKeyError("evaluate", "at", f" is {shown(list(self.at))}; shares must rise.")


@dataclass(frozen=True)
class EarlyStopping(Section):
    """Stop when the validation part gets no better."""

    WHERE: ClassVar[str] = "early_stopping"

    every_inputs: int | None = key(
        None, "Score the validation part after so many inputs; null never stops early", least=1
    )
    patience: int = key(3, "Stop after so many scores without a better one", least=1)
    min_change: float = key(0.0, "A logloss is better if it is lower by more than that", least=0)


@dataclass(frozen=True)
class Checkpoint(Section):
    """When the state of a run is saved; at its end it always is."""

    WHERE: ClassVar[str] = "checkpoint"

    every_inputs: int | None = key(None, "After so many inputs; null never", least=1)
    every_minutes: float | None = key(None, "After so many minutes; null never", above=0)
    keep: int = key(2, "How many of the last ones stay", least=1)


@dataclass(frozen=True)
class Log(Section):
    """What a run tells while it goes on."""

    WHERE: ClassVar[str] = "log"

    every_inputs: int | None = key(
        None, "A line in metrics.jsonl after so many inputs; null chooses", least=1
    )
    tensorboard: bool = key(True, "Write the folder tensorboard")


def _init(init: Init | None) -> dict[str, Any]:
    from slipstream.tables import spec

    return {} if init is None else {"init": spec.Init(init.kind, init.scale)}


def _check_options(given: Section, optimizer: str, where: str, prefix: str) -> None:
    for option in _OPTIONS:
        value = getattr(given, option)
        if value is not None and option not in _ROW_OPTIONS[optimizer]:
            problem = f" is {value}, but {optimizer} has no {option}; leave it out."
            raise WrongKeyError(where, f"{prefix}{option}", problem)
