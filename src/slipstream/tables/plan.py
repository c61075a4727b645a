"""The Plan: everything that a step needs to know of its batch, worked out ahead of it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from slipstream.arrays import Array
from slipstream.data.batch import Batch, OnRead, ReadBlock
from slipstream.quick import quick


class ListSlots(NamedTuple):
    """The slots of one list column: list i is `slots[offsets[i]:offsets[i + 1]]`."""

    slots: Tensor
    offsets: Tensor


@dataclass(frozen=True)
class GradientIndex:
    """The rows that a batch updates, each once, and where the parts of its gradient come from.

    The gradient of row `rows[u]` is the sum, in this order, of the gradient vectors numbered
    `sources[starts[u]:starts[u + 1]]`. Vectors are numbered `input * features + feature` over the
    features of the group, then, behind these, `input * length + step` for each of its sequences,
    then by value for each list whose pooling is no sum.
    A row that must not change (padding, a frozen row) is absent.
    """

    rows: Tensor
    starts: Tensor
    sources: Tensor


class KeptPrefix(NamedTuple):
    """Where a device finds the kept rows of a group by their ids: for each single feature."""

    columns: Tensor  # int32, its column in the block of ids
    limits: Tensor  # int32, ids below this are in slots by their number,
    bases: Tensor  # int32, from this one on
    starts: Tensor  # int64, where the rows of its table begin
    sizes: Tensor  # int64, how many there are


class RowSlots(NamedTuple):
    """Rows that change their tier, each with its slot in the fast one."""

    rows: Array  # the rows
    slots: Array  # their slots
    # For rows that stay, where plans leave it to a device to find them: how.
    numbered: KeptPrefix | None = None


class ColdLookups(NamedTuple):
    """Lookups of rows that the device cannot find by itself, in a plan that it finishes."""

    places: Array  # int32, `input * features + feature`
    slots: Array  # int32, where the row of each is
    many: Emitted  # the plans that were made with this one, all of it
    at: int  # which of them it is


class Emitted(NamedTuple):
    """The plans of one group for several batches in a row, one behind the other."""

    places: Array  # int32: lookups of rows that are not kept, `input * features + feature`
    slots: Array  # int32: where these rows are
    lookups: Array  # where those of each batch begin, and the end of the last
    fill_rows: Array  # rows to bring in before each step
    fill_slots: Array  # int32: their slots
    fills: Array  # where those of each batch begin, and the end of the last
    evict_rows: Array  # rows to write back after it
    evict_slots: Array  # int32: their slots
    evicts: Array  # where those of each batch begin, and the end of the last


@dataclass(frozen=True)
class GroupPlan:
    """Where the rows of one group are that a batch needs."""

    slots: Tensor  # int64 `[single features, capacity]`; -1 in padding
    # The list features of the group by their number in the layout.
    lists: dict[int, ListSlots] = field(default_factory=dict)
    # The rows to update; None for a batch that is only looked up.
    touched: GradientIndex | None = None
    # Rows of the slow tier to bring into slots before the step; None where the step works in the
    # slow tier, and slots are row numbers.
    fill: RowSlots | None = None
    # Rows to write back from their slots after the step; None where there is one tier.
    evict: RowSlots | None = None
    # Distinct rows that the step needs, updated or not; 0 where there is one tier, and where the
    # device finds out.
    needs: int = 0
    kept_rows: int = 0  # rows that stay in the fast tier for good, as it is now decided
    # For a step in the slow tier though there is a fast one: the rows that it needs and that are in
    # the fast one. They are in the slow one for the step, and then in their slots again.
    borrowed: RowSlots | None = None
    # For a plan that the device finishes from the batch's ids: what it cannot know. It has no slots
    # then, and all rows that are looked up are updated.
    cold: ColdLookups | None = None


@dataclass(frozen=True)
class Plan:
    """One batch, ready to be stepped through: a pure function of data, config and decisions."""

    step: int  # the number of the step, from 1
    example_numbers: Tensor  # which examples of the part, -1 in padding
    n_valid: int  # how many inputs there are; the rest of the capacity is padding
    next_position: int  # where in the order the next batch begins
    labels: Tensor  # float32 `[capacity]`
    dense: Tensor  # float32 `[capacity, dense values]`
    weight: Tensor  # how much each input counts in the loss; 0 in padding
    logit_offset: Tensor | None  # added to each logit in the loss, or None
    groups: tuple[GroupPlan, ...]  # where the rows are, for each group of the layout
    after: int = 0  # the step whose write-backs must have landed before rows are brought in
    # Where each part of the batch but the first begins; none for a batch in one part. The inputs of
    # the first of several parts need no row that is still to be brought in.
    parts: tuple[int, ...] = ()
    # The numbers of the inputs just before or between these that are not trained; None where
    # nothing decides about that.
    skipped: Array | None = None
    decision: int = 0  # the number of the decision by which they were skipped
    # Int32 `[capacity, single columns]`, for a plan that the device finishes.
    ids: Tensor | None = None
    # The batches that were read at once with its batch. None where they are others.
    read_block: ReadBlock | None = None
    place: int = 0  # which of them it is

    @property
    def capacity(self) -> int:
        """Inputs that fit."""
        return self.labels.shape[0]

    @cached_property
    def oversized_batch(self) -> bool:
        """Whether its rows do not fit the fast tier, so that it is trained in the slow one."""
        return any(group.borrowed is not None for group in self.groups)


def lookup_of(groups: Sequence[GroupPlan], first: int, last: int) -> tuple[GroupPlan, ...]:
    """Where the rows of some examples of a batch are, to be looked up."""
    some = []
    for group in groups:
        lists = {}
        for number, column in group.lists.items():
            offsets = column.offsets[first : last + 1]
            begin, end = int(offsets[0]), int(offsets[-1])
            lists[number] = ListSlots(column.slots[begin:end], offsets - begin)
        slots = group.slots[:, first:last].contiguous()
        some.append(GroupPlan(slots, lists, fill=group.fill))
    return tuple(some)


Masks = Sequence[Tensor | None]
"""For each group a bool for each of its rows, False where it stays as it is; None updates all."""

Batches = Iterable[Batch]
"""Batches in the order of their steps."""

RowFilter = Callable[[Batch], Masks | None]
"""Which rows a batch updates; called once for every batch, in their order, when it is read."""


def filter_rows(groups: tuple[GroupPlan, ...], masks: Masks | None) -> tuple[GroupPlan, ...]:
    """The same plans with an update that leaves some rows as they are; they are still looked up."""
    if masks is None:
        return groups
    return tuple(
        group
        if mask is None or group.touched is None
        else replace(group, touched=_only(group.touched, mask))
        for group, mask in zip(groups, masks, strict=True)
    )


def _only(touched: GradientIndex, mask: Tensor) -> GradientIndex:
    updated, sizes = mask[touched.rows], touched.starts.diff()
    starts = torch.zeros(int(updated.sum()) + 1, dtype=touched.starts.dtype)
    torch.cumsum(sizes[updated], 0, out=starts[1:])
    sources = touched.sources[updated.repeat_interleave(sizes)]
    return GradientIndex(touched.rows[updated], starts, sources)


class Placed(NamedTuple):
    """A batch, where its rows are, and where its parts begin."""

    batch: Batch
    groups: tuple[GroupPlan, ...]
    after: int = 0
    parts: tuple[int, ...] = ()


class Placement(Protocol):
    """Where the rows live when their batch comes."""

    @property
    def remembers(self) -> bool:
        """Whether the parts of a batch follow from the batches before it."""

    @property
    def on_read(self) -> OnRead | None:
        """The function that a `Loader` calls with every block that it has read, if any."""

    def resident_rows(self) -> Sequence[RowSlots]:
        """For each group the rows in the fast tier, between two plans; empty without one."""

    def place(
        self, batches: Batches, step: int, *, update: bool, row_filter: RowFilter | None = None
    ) -> Iterator[Placed]:
        """Where the rows of each batch are; the first batch is step number `step`."""


class Planner:
    """Makes the plans of batches: which rows each needs, and where they are."""

    def __init__(
        self, placement: Placement, *, update: bool = True, row_filter: RowFilter | None = None
    ) -> None:
        self._placement, self._update, self._row_filter = placement, update, row_filter

    def plans(self, batches: Batches, step: int = 1) -> Iterator[Plan]:
        """The plan of each batch; the first is step number `step`."""
        placed = self._placement.place(
            batches, step, update=self._update, row_filter=self._row_filter
        )
        try:
            for number, (batch, groups, after, parts) in enumerate(placed, start=step):
                yield quick(
                    Plan,
                    step=number,
                    example_numbers=batch.example_numbers,
                    n_valid=batch.n_valid,
                    next_position=batch.next_position,
                    labels=batch.labels,
                    dense=batch.dense,
                    weight=batch.weights,
                    logit_offset=batch.logit_offset,
                    groups=groups,
                    after=after,
                    parts=parts,
                    ids=batch.ids if any(group.cold is not None for group in groups) else None,
                    skipped=batch.skipped,
                    decision=batch.decision,
                    read_block=batch.read_block,
                    place=batch.place,
                )
        finally:
            if isinstance(placed, Generator):
                placed.close()
