"""How a row moves: the optimizers, each a pure function of row, state and gradient.

They know nothing of tables. What they write is the plain reference; kernels repeat it.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from torch import Tensor

from slipstream.errors import ConfigError, did_you_mean

State = dict[str, Tensor]


@dataclass(frozen=True)
class Sgd:
    """`row -= lr * gradient`.

    Args:
        lr: Learning rate.
        weight_decay: Adds `weight_decay * row` to the gradient of rows that are touched.
    """

    lr: float = 0.01
    weight_decay: float = 0.0
    name: ClassVar[str] = "sgd"

    def __post_init__(self) -> None:
        _check(self)

    def state(self, dim: int) -> dict[str, int]:  # noqa: ARG002 - the same question for all
        """The values kept beside a row of so many elements: names and how many."""
        return {}

    def apply(self, rows: Tensor, state: State, gradient: Tensor, lr: float, step: int) -> Tensor:  # noqa: ARG002
        """The rows after one step; `state` is changed in place."""
        if self.weight_decay:
            gradient = gradient + self.weight_decay * rows
        return rows - lr * gradient


@dataclass(frozen=True)
class Adagrad:
    """Each element has its own rate, by the squares of its past gradients (as in PyTorch).

    Args:
        lr: Learning rate.
        eps: Keeps the division from zero.
        weight_decay: Adds `weight_decay * row` to the gradient of rows that are touched.
    """

    lr: float = 0.01
    eps: float = 1e-10
    weight_decay: float = 0.0
    name: ClassVar[str] = "adagrad"

    def __post_init__(self) -> None:
        _check(self)

    def state(self, dim: int) -> dict[str, int]:
        """The values kept beside a row of so many elements: names and how many."""
        return {"sum": dim}

    def apply(self, rows: Tensor, state: State, gradient: Tensor, lr: float, step: int) -> Tensor:  # noqa: ARG002
        """The rows after one step; `state` is changed in place."""
        if self.weight_decay:
            gradient = gradient + self.weight_decay * rows
        state["sum"] += gradient * gradient
        return rows - lr * gradient / (state["sum"].sqrt() + self.eps)


@dataclass(frozen=True)
class RowwiseAdagrad:
    """One rate for the whole row, by the mean square of its past gradients (as in FBGEMM).

    Args:
        lr: Learning rate.
        eps: Keeps the division from zero.
        weight_decay: Adds `weight_decay * row` to the gradient of rows that are touched.
    """

    lr: float = 0.01
    eps: float = 1e-8
    weight_decay: float = 0.0
    name: ClassVar[str] = "rowwise_adagrad"

    def __post_init__(self) -> None:
        _check(self)

    def state(self, dim: int) -> dict[str, int]:  # noqa: ARG002 - the same question for all
        """The values kept beside a row of so many elements: names and how many."""
        return {"sum": 1}

    def apply(self, rows: Tensor, state: State, gradient: Tensor, lr: float, step: int) -> Tensor:  # noqa: ARG002
        """The rows after one step; `state` is changed in place."""
        if self.weight_decay:
            gradient = gradient + self.weight_decay * rows
        state["sum"] += (gradient * gradient).mean(dim=1, keepdim=True)
        return rows - (lr / (state["sum"].sqrt() + self.eps)) * gradient


@dataclass(frozen=True)
class Adam:
    """Adam on the rows that are touched, the others stay as they are (PyTorch's SparseAdam).

    Weight decay has no agreed meaning for rows that are touched now and then: there is none.

    Args:
        lr: Learning rate.
        beta1: How much of the mean gradient is kept from step to step.
        beta2: How much of the mean square is kept from step to step.
        eps: Keeps the division from zero.
    """

    lr: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    name: ClassVar[str] = "adam"

    def __post_init__(self) -> None:
        _check(self)

    def state(self, dim: int) -> dict[str, int]:
        """The values kept beside a row of so many elements: names and how many."""
        return {"mean": dim, "square": dim}

    def apply(self, rows: Tensor, state: State, gradient: Tensor, lr: float, step: int) -> Tensor:
        """The rows after step number `step`, counted from 1; `state` is changed in place."""
        mean, square = state["mean"], state["square"]
        mean += (gradient - mean) * (1 - self.beta1)
        square += (gradient * gradient - square) * (1 - self.beta2)
        return rows - self.rate(lr, step) * (mean / (square.sqrt() + self.eps))

    def rate(self, lr: float, step: int) -> float:
        """The learning rate with the corrections for a young mean and a young square."""
        return lr * (1 - self.beta2**step) ** 0.5 / (1 - self.beta1**step)


RowOptimizer = Sgd | Adagrad | RowwiseAdagrad | Adam
OPTIMIZERS: dict[str, type[RowOptimizer]] = {
    one.name: one for one in (Sgd, Adagrad, RowwiseAdagrad, Adam)
}


def row_optimizer(name: str, **options: Any) -> RowOptimizer:
    """The optimizer of that name.

    Example:
        >>> row_optimizer("sgd", lr=0.1)
        Sgd(lr=0.1, weight_decay=0.0)
    """
    if name not in OPTIMIZERS:
        raise ConfigError(f"There is no row optimizer {name!r}.{did_you_mean(name, OPTIMIZERS)}")
    kind = OPTIMIZERS[name]
    known = asdict(kind())
    for option in options:
        if option not in known:
            raise ConfigError(f"{name} has no option {option!r}.{did_you_mean(option, known)}")
    return kind(**options)


def _check(optimizer: RowOptimizer) -> None:
    for option, value in asdict(optimizer).items():
        wanted = "a number of at least 0"
        good = isinstance(value, int | float) and math.isfinite(value) and value >= 0
        if option.startswith("beta"):
            wanted, good = "a number from 0 to below 1", good and value < 1
        if not good:
            raise ConfigError(f"{option} of {optimizer.name} is {value!r}; it must be {wanted}.")
