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
    """The rows that a batch moves, each once, and where the parts of its gradient come from.

    The gradient of row `rows[u]` is the sum, in this order, of the gradient vectors numbered
    `sources[starts[u]:starts[u + 1]]`. Vectors are numbered `input * features + feature` over the
    features of the group, then, behind these, `input * length + step` for each of its sequences,
    then by value for each list whose pooling is no sum.
    A row that must not move (padding, a frozen row) is absent.
    """

    rows: Tensor
    starts: Tensor
    sources: Tensor


class KeptPrefix(NamedTuple):
    """Where a device finds the kept rows of a group by their ids: for each single feature.

    Args:
        columns: int32, its column in the block of ids.
        limits: int32, ids below this are in slots by their number,
        bases: int32, from this one on.
        starts: int64, where the rows of its table begin.
        sizes: int64, how many there are.
    """

    columns: Tensor
    limits: Tensor
    bases: Tensor
    starts: Tensor
    sizes: Tensor


class RowSlots(NamedTuple):
    """Rows that change their tier, each with its slot in the fast one.

    Args:
        rows: The rows.
        slots: Their slots.
        numbered: For rows that stay, where plans leave it to a device to find them: how.
    """

    rows: Array
    slots: Array
    numbered: KeptPrefix | None = None


class ColdLookups(NamedTuple):
    """Lookups of rows that the device cannot find by itself, in a plan that it finishes.

    Args:
        places: int32, `input * features + feature`.
        slots: int32, where the row of each is.
        many: The plans that were made with this one, all of it.
        at: Which of them it is.
    """

    places: Array
    slots: Array
    many: Emitted
    at: int


class Emitted(NamedTuple):
    """What the plans of one group for several batches in a row say, one behind the other.

    Args:
        places: int32: lookups of rows that are not kept, `input * features + feature`.
        slots: int32: where these rows are.
        lookups: Where those of each batch begin, and the end of the last.
        fill_rows: Rows to bring in before each step.
        fill_slots: int32: their slots.
        fills: Where those of each batch begin, and the end of the last.
        evict_rows: Rows to write back after it.
        evict_slots: int32: their slots.
        evicts: Where those of each batch begin, and the end of the last.
    """

    places: Array
    slots: Array
    lookups: Array
    fill_rows: Array
    fill_slots: Array
    fills: Array
    evict_rows: Array
    evict_slots: Array
    evicts: Array


@dataclass(frozen=True)
class GroupPlan:
    """Where the rows of one group are that a batch needs.

    Args:
        slots: int64 `[single features, capacity]`; -1 in padding.
        lists: The list features of the group by their number in the layout.
        touched: What the update moves; None for a batch that is only looked up.
        fill: Rows of the slow tier to bring into slots before the step; None where the step works
            in the slow tier, and slots are row numbers.
        evict: Rows to write back from their slots after the step; None where there is one tier.
        needs: Distinct rows that the step needs, moved or not; 0 where there is one tier, and where
            the device finds out.
        kept: Rows that stay in the fast tier for good, as it is now decided.
        borrowed: For a step in the slow tier though there is a fast one: the rows that it needs and
            that are in the fast one. They are in the slow one for the step, and then in their slots
            again.
        cold: For a plan that the device finishes from the batch's ids: what it cannot know. It has
            no slots then, and all rows that are looked up move.
    """

    slots: Tensor
    lists: dict[int, ListSlots] = field(default_factory=dict)
    touched: GradientIndex | None = None
    fill: RowSlots | None = None
    evict: RowSlots | None = None
    needs: int = 0
    kept: int = 0
    borrowed: RowSlots | None = None
    cold: ColdLookups | None = None


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
        after: The step whose write-backs must have landed before rows are brought in.
        parts: Where each part of the batch but the first begins; none for a batch in one part. The
            inputs of the first of several parts need no row that is still to be brought in.
        ids: int32 `[capacity, single columns]`, for a plan that the device finishes.
        skipped: The numbers of the inputs just before or between these that are not trained;
            None where nothing decides about that.
        decision: The number of the decision by which they were skipped.
        read_block: The batches that were read at once with its batch. None where
            they are others.
        place: Which of them it is.
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
    after: int = 0
    parts: tuple[int, ...] = ()
    skipped: Array | None = None
    decision: int = 0
    ids: Tensor | None = None
    read_block: ReadBlock | None = None
    place: int = 0

    @property
    def capacity(self) -> int:
        """Inputs that fit."""
        return self.labels.shape[0]

    @cached_property
    def oversized_batch(self) -> bool:
        """Whether its rows do not fit the fast tier, so that it is trained in the slow one."""
        return any(group.borrowed is not None for group in self.groups)


def lookup_of(groups: Sequence[GroupPlan], first: int, last: int) -> tuple[GroupPlan, ...]:
    """Where the rows of some inputs of a batch are, to be looked up."""
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
    moves, sizes = mask[touched.rows], touched.starts.diff()
    starts = torch.zeros(int(moves.sum()) + 1, dtype=touched.starts.dtype)
    torch.cumsum(sizes[moves], 0, out=starts[1:])
    sources = touched.sources[moves.repeat_interleave(sizes)]
    return GradientIndex(touched.rows[moves], starts, sources)


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
        """Where the rows of each batch are; the first batch is step number `step`.

        Args:
            batches: The batches.
            step: The number of the first step.
            update: Whether rows will be moved, or only looked up.
            row_filter: Which rows each batch updates; None updates all that it needs.
        """


class Planner:
    """Makes the plans of batches: which rows each needs, and where they are.

    Args:
        placement: Finds the rows of batches.
        update: Whether the plans are for training, or only for looking up.
        row_filter: Which rows each batch updates; None updates all that it needs.
    """

    def __init__(
        self, placement: Placement, *, update: bool = True, row_filter: RowFilter | None = None
    ) -> None:
        self._placement = placement
        self._update = update
        self._row_filter = row_filter

    def plans(self, batches: Batches, step: int = 1) -> Iterator[Plan]:
        """The plan of each batch; the first is step number `step`."""
        placed = self._placement.place(
            batches, step, update=self._update, row_filter=self._row_filter
        )
        try:
            yield from self._plans_of(placed, step)
        finally:
            if isinstance(placed, Generator):
                placed.close()

    def _plans_of(self, placed: Iterator[Placed], step: int) -> Iterator[Plan]:
        for number, (batch, groups, after, parts) in enumerate(placed, start=step):
            yield quick(
                Plan,
                step=number,
                numbers=batch.numbers,
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
