"""Lookups whose gradients wait for a step, and how several become one."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from slipstream.data.batch import ListBatch
from slipstream.tables.gradients import gradient_vectors
from slipstream.tables.plan import GradientIndex, GroupPlan
from slipstream.tables.pooling import POOLINGS
from slipstream.tables.spec import Layout
from slipstream.tables.store import RowStore

_MANY = 1000


@dataclass(eq=False)
class Lookup:
    """A lookup until its step; only the graph of the loss holds it until backward."""

    layout: Layout  # tables and features
    ids: Tensor  # of single columns, without padding
    lists: dict[str, ListBatch]  # list columns, without padding
    waiting: list[Lookup]  # where it stands in line once it has a gradient
    # Gradients of the groups by number, `[inputs, features, dim]`.
    vectors: dict[int, Tensor] = field(default_factory=dict)
    # Gradients of sequence features by number, `[inputs, length, dim]`.
    sequences: dict[int, Tensor] = field(default_factory=dict)
    # The features that a gradient has come to. The rows of others must stay as they are: Adam and
    # weight decay would change them even with a gradient of zero.
    reached: set[int] = field(default_factory=set)

    @property
    def inputs(self) -> int:
        """How many there are."""
        return len(self.ids)

    def add(self, gradients: Sequence[Tensor | None], stacked: bool) -> None:
        """Take what backward brings: for each output its gradient, if any."""
        if not self.vectors and not self.sequences:
            self.waiting.append(self)
            if len(self.waiting) == _MANY:
                warnings.warn(
                    f"The gradients of {_MANY} lookups wait for EmbeddingTables.step(); they are "
                    "kept until then. Call it after backward(), or look up under torch.no_grad().",
                    stacklevel=2,
                )
        left = list(gradients)
        for number, group in enumerate(self.layout.groups):
            if stacked:
                whole, had = left.pop(0), group.features
            else:
                pieces, left = left[: len(group.features)], left[len(group.features) :]
                had = tuple(
                    n for n, piece in zip(group.features, pieces, strict=True) if piece is not None
                )
                whole = _stack(pieces)
            if whole is not None:
                self.reached.update(had)
                _sum(self.vectors, number, whole[: self.inputs].cpu())
        for number, steps in zip(self.layout.sequences, left, strict=True):
            if steps is not None:
                self.reached.add(number)
                _sum(self.sequences, number, steps[: self.inputs].cpu())

    def forget(self) -> None:
        """Drop the gradients; a backward pass to come may bring others."""
        for gradients in (self.vectors, self.sequences, self.reached):
            gradients.clear()


class Collect(torch.autograd.Function):  # type: ignore[misc]
    """Hands out vectors, and their gradients to the lookup they are of.

    The vectors are no parameters: what autograd follows is an empty tensor beside them.
    """

    @staticmethod
    def forward(  # noqa: D102
        ctx: Any,
        anchor: Tensor,  # noqa: ARG004
        lookup: Lookup,
        tensors: Sequence[Tensor],
        stacked: bool,
    ) -> tuple[Tensor, ...]:
        ctx.lookup, ctx.stacked = lookup, stacked
        ctx.set_materialize_grads(False)
        return outputs(lookup.layout, tensors, stacked)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[None, ...]:  # noqa: D102
        if any(gradient is not None for gradient in gradients):
            ctx.lookup.add(gradients, ctx.stacked)
        return None, None, None, None


def outputs(layout: Layout, tensors: Sequence[Tensor], stacked: bool) -> tuple[Tensor, ...]:
    """What a lookup gives: the groups or their features, then the sequences."""
    groups = len(layout.groups)
    if stacked:
        return tuple(tensors)
    return (*(v for vectors in tensors[:groups] for v in vectors.unbind(1)), *tensors[groups:])


def joined_ids(lookups: Sequence[Lookup]) -> tuple[Tensor, dict[str, ListBatch]]:
    """The ids of several lookups, as if they were one batch."""
    if len(lookups) == 1:
        return lookups[0].ids, lookups[0].lists
    lists = {}
    for name in lookups[0].lists:
        parts = [lookup.lists[name] for lookup in lookups]
        values = torch.cat([part.values.to(torch.int64) for part in parts])
        lengths = torch.cat([part.offsets.diff() for part in parts])
        lists[name] = ListBatch(values, torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]))
    return torch.cat([lookup.ids.to(torch.int64) for lookup in lookups]), lists


def joined_gradient(
    lookups: Sequence[Lookup], number: int, plan: GroupPlan, store: RowStore
) -> tuple[GroupPlan, Tensor | None]:
    """The gradient vectors of a group, by their numbers, and the plan of its update."""
    layout = lookups[0].layout
    group = layout.groups[number]
    if not any(lookup.reached & {*group.features, *group.sequences} for lookup in lookups):
        return plan, None
    dtype = torch.float64 if group.storage == "fp64" else torch.float32

    def joined(gradients: Sequence[Tensor | None], *shape: int) -> Tensor:
        """Those of all lookups, zeros where there is none."""
        pieces = [
            torch.zeros(lookup.inputs, *shape, group.dim, dtype=dtype) if piece is None else piece
            for lookup, piece in zip(lookups, gradients, strict=True)
        ]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)

    vectors = joined([lookup.vectors.get(number) for lookup in lookups], len(group.features))
    lengths = {n: layout.features[n].length for n in group.sequences}
    sequences = [joined([x.sequences.get(n) for x in lookups], lengths[n]) for n in lengths]
    gradient = gradient_vectors(layout, group, store, plan, vectors, sequences)
    if all(lookup.reached >= {*group.features, *group.sequences} for lookup in lookups):
        return plan, gradient
    reached = [torch.cat([_reached(x, group.features, x.inputs) for x in lookups]).reshape(-1)]
    for n, length in lengths.items():
        reached += [_reached(lookup, (n,), lookup.inputs * length)[:, 0] for lookup in lookups]
    for n in group.features:
        feature = layout.features[n]
        if feature.kind != "single" and not POOLINGS[feature.kind].is_sum:
            values = [len(lookup.lists[feature.column].values) for lookup in lookups]
            reached += [
                _reached(lookup, (n,), count)[:, 0]
                for lookup, count in zip(lookups, values, strict=True)
            ]
    assert plan.touched is not None, "a step plans an update"
    touched = _only(plan.touched, torch.cat(reached))
    return GroupPlan(plan.slots, plan.lists, touched), gradient


def _reached(lookup: Lookup, features: tuple[int, ...], times: int) -> Tensor:
    """Whether a gradient has reached each feature, so many times over."""
    return torch.tensor([n in lookup.reached for n in features], dtype=torch.bool).expand(times, -1)


def _only(touched: GradientIndex, known: Tensor) -> GradientIndex:
    """What is touched by the gradient vectors that there are."""
    owner = torch.repeat_interleave(torch.arange(len(touched.rows)), touched.starts.diff())
    keep = known[touched.sources]
    counts = torch.bincount(owner[keep], minlength=len(touched.rows))
    some = counts > 0
    starts = torch.cat([counts.new_zeros(1), counts[some].cumsum(0)])
    return GradientIndex(touched.rows[some], starts, touched.sources[keep])


def _stack(pieces: Sequence[Tensor | None]) -> Tensor | None:
    some = next((piece for piece in pieces if piece is not None), None)
    if some is None:
        return None
    none = torch.zeros_like(some)
    return torch.stack([none if piece is None else piece for piece in pieces], dim=1)


def _sum(where: dict[int, Tensor], number: int, gradient: Tensor) -> None:
    """Add without writing into what autograd handed over: others may hold it too."""
    where[number] = where[number] + gradient if number in where else gradient
