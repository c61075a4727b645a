"""The Plan: everything that a step needs to know of its batch, worked out ahead of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from slipstream.data.batch import Batch, ListBatch


@dataclass(frozen=True)
class ListSlots:
    """The slots of one list column: list i is `slots[offsets[i]:offsets[i + 1]]`."""

    slots: Tensor
    offsets: Tensor


@dataclass(frozen=True)
class Touched:
    """The rows that a batch moves, each once, and where the parts of its gradient come from.

    The gradient of row `rows[u]` is the sum, in this order, of the gradient vectors numbered
    `sources[starts[u]:starts[u + 1]]`. Vectors are numbered `input * features + feature` over the
    features of the group, then, behind these, `input * length + step` for each of its sequences.
    A row that must not move (padding, a frozen row) is absent.
    """

    rows: Tensor
    starts: Tensor
    sources: Tensor


@dataclass(frozen=True)
class GroupPlan:
    """Where the rows of one group are that a batch needs.

    Args:
        slots: int64 `[single features, capacity]`; -1 in padding.
        lists: The list features of the group by their number in the layout.
        touched: What the update moves; None for a batch that is only looked up.
    """

    slots: Tensor
    lists: dict[int, ListSlots] = field(default_factory=dict)
    touched: Touched | None = None


@dataclass(frozen=True)
class Plan:
    """One batch, ready to be stepped through: a pure function of data, config and decisions.

    Args:
        step: The number of the step, from 1.
        numbers: Which inputs of the part, -1 in padding.
        n_valid: How many inputs there are; the rest of the capacity is padding.
        next_position: Where in the order the next batch begins.
        labels: float32 `[capacity]`.
        dense: float32 `[capacity, dense values]`.
        weight: How much each input counts in the loss; 0 in padding.
        logit_offset: Added to each logit in the loss, or None.
        groups: Where the rows are, for each group of the layout.
    """

    step: int
    numbers: Tensor
    n_valid: int
    next_position: int
    labels: Tensor
    dense: Tensor
    weight: Tensor
    logit_offset: Tensor | None
    groups: tuple[GroupPlan, ...]

    @property
    def capacity(self) -> int:
        """Inputs that fit."""
        return len(self.labels)


class Placement(Protocol):
    """Where the rows live when their batch comes."""

    def plan(
        self, ids: Tensor, lists: Mapping[str, ListBatch], n_valid: int, *, update: bool
    ) -> tuple[GroupPlan, ...]:
        """Where the rows of a batch are, group by group."""


class Planner:
    """Makes the plan of each batch: which rows it needs, and where they are.

    Args:
        placement: Finds the rows of a batch.
        update: Whether the plans are for training, or only for looking up.
    """

    def __init__(self, placement: Placement, *, update: bool = True) -> None:
        self._placement = placement
        self._update = update

    def plan(self, batch: Batch, step: int) -> Plan:
        """The plan of one batch, which is step number `step`."""
        groups = self._placement.plan(batch.ids, batch.lists, batch.n_valid, update=self._update)
        return Plan(
            step=step,
            numbers=batch.numbers,
            n_valid=batch.n_valid,
            next_position=batch.next_position,
            labels=batch.labels,
            dense=batch.dense,
            weight=batch.weights,
            logit_offset=None,
            groups=groups,
        )
