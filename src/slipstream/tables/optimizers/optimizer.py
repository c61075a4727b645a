"""What every row optimizer is: options, state slots, and one update."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from slipstream.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

State = dict[str, "Tensor"]
StateSize = Literal["element", "row"]


class RowOptimizer(ABC):
    """How embedding rows change by their gradients.

    Subclasses are frozen dataclasses: their fields are the options, all of them numbers. An
    optimizer with the option `weight_decay` gets the gradient with `weight_decay * row` added.

    Attributes:
        name: The name in configurations and checkpoints.
        slots: The state beside each row: for each name one number an `element`, or one a `row`.
            State begins at zero.
        below_one: The options that must be below 1; all must be at least 0.
        kernel: A compiled `update`, called with a `RowUpdate` and the numbers of the first row to
            update and of the one after the last; None runs the plain one, which is slow.
        lr: The learning rate; every optimizer has this option.
    """

    name: ClassVar[str]
    slots: ClassVar[Mapping[str, StateSize]] = {}
    below_one: ClassVar[tuple[str, ...]] = ()
    kernel: ClassVar[Callable[..., None] | None] = None
    lr: float
    weight_decay = 0.0

    def __post_init__(self) -> None:
        for option, value in self.options().items():
            if problem := self.problem(option, value):
                raise ConfigError(f"{option} of {self.name}{problem}")

    @classmethod
    def problem(cls, option: str, value: object) -> str:
        """What is wrong with the value of an option; nothing if it is right."""
        rule = "a number of at least 0"
        good = isinstance(value, int | float) and math.isfinite(value) and value >= 0
        if option in cls.below_one:
            rule, good = "a number from 0 to below 1", good and cast("float", value) < 1
        return "" if good else f" is {value!r}; it must be {rule}."

    @abstractmethod
    def update(self, rows: Tensor, state: State, gradient: Tensor, lr: float, step: int) -> Tensor:
        """The rows after one step. This plain version defines what every kernel computes.

        Args:
            rows: `[rows, dim]`.
            state: For each slot `[rows, dim]` or `[rows, 1]`; changed in place.
            gradient: `[rows, dim]`, summed over the batch.
            lr: The learning rate of this step.
            step: The number of the step, from 1.
        """

    def kernel_options(self, lr: float, step: int) -> tuple[float, ...]:
        """The options that the kernel receives: the learning rate, then the other options."""
        options = self.options()
        return (lr, *(v for name, v in options.items() if name not in ("lr", "weight_decay")))

    def options(self) -> dict[str, float]:
        """The options by name."""
        return asdict(self)  # type: ignore[call-overload]  # subclasses are dataclasses

    def state_sizes(self, dim: int) -> dict[str, int]:
        """How many numbers each state slot has beside a row of `dim` elements."""
        return {name: dim if size == "element" else 1 for name, size in self.slots.items()}
