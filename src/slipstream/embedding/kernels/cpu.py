"""Lookup and update on the CPU, by compiled kernels."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor

from slipstream.data.inputs import Array
from slipstream.embedding.kernels import rows as kernel
from slipstream.embedding.kernels.threads import even, shared, shares_for
from slipstream.embedding.spec import Group, Layout
from slipstream.embedding.store import RowStore
from slipstream.plan import GroupPlan


def lookup(layout: Layout, group: Group, store: RowStore, plan: GroupPlan) -> list[Tensor]:
    """The vectors of a group `[capacity, features, dim]`, then each of its sequences."""
    floats = store.group.storage in ("fp32", "fp64")
    values = _floats(store) if floats else store.records.view(np.uint16)
    dtype = torch.float64 if store.group.storage == "fp64" else torch.float32
    capacity = plan.slots.shape[1]
    vectors = torch.empty(capacity, len(group.features), group.dim, dtype=dtype)
    out = vectors.numpy()
    kinds = [layout.features[number].kind for number in group.features]
    places = np.array([p for p, kind in enumerate(kinds) if kind == "single"], dtype=np.int64)
    slots = plan.slots.numpy()
    gather = kernel.lookup_floats if floats else kernel.lookup_halves
    target = out if floats else out.view(np.uint32)

    def singles(first: int, last: int) -> None:
        gather(values, slots[first:last], places[first:last], target)

    shared(singles, even(len(places), slots.size * group.dim))
    for place, number in enumerate(group.features):
        if kinds[place] != "single":
            lists = plan.lists[number]
            mean = kinds[place] == "mean"
            _pool(
                values, not floats, lists.slots.numpy(), lists.offsets.numpy(), mean, out[:, place]
            )
    made = [vectors]
    for number in group.sequences:
        lists, length = plan.lists[number], layout.features[number].length
        steps = torch.zeros(capacity, length, group.dim, dtype=dtype)
        starts = lists.offsets.numpy()
        owner = np.repeat(np.arange(capacity), np.diff(starts))
        step = np.arange(len(owner)) - starts[owner]
        target = steps.view(capacity * length, 1, group.dim).numpy()
        where = np.full((1, capacity * length), -1, dtype=np.int64)
        where[0, owner * length + step] = lists.slots.numpy()
        gather(
            values, where, np.zeros(1, dtype=np.int64), target if floats else target.view(np.uint32)
        )
        made.append(steps)
    return made


def _pool(
    values: Array, halved: bool, slots: Array, offsets: Array, mean: bool, out: Array
) -> None:
    def lists(first: int, last: int) -> None:
        kernel.pool(values, halved, slots, offsets[first : last + 1], mean, out[first:last])

    shared(lists, even(len(offsets) - 1, len(slots) * out.shape[1]))


def update(store: RowStore, plan: GroupPlan, gradient: Tensor, lr: float, step: int) -> None:
    """Move the rows: the parts of each row's gradient are summed, then applied once.

    Args:
        store: The rows.
        plan: Which rows move.
        gradient: The gradient vectors `[number, dim]`, as `Touched` numbers them.
        lr: Learning rate.
        step: The number of the step, from 1.
    """
    touched = plan.touched
    assert touched is not None, "a batch that is only looked up moves nothing"
    group, record = store.group, store.record
    rows, starts, sources = (one.numpy() for one in (touched.rows, touched.starts, touched.sources))
    values = _floats(store)
    state = next(iter(group.optimizer.state(group.dim)), None)
    at = 0 if state is None else record.fields[state].start // values.itemsize
    p = kernel.parameters(group.optimizer, lr, step, values.dtype)
    kind = kernel.NUMBER[group.optimizer.name]
    gradients = gradient.contiguous().numpy()
    if group.storage in ("fp32", "fp64"):
        move = partial(kernel.update_floats, values)
    else:
        low = record.fields["weight_low"].start // 2 if group.storage == "split-bf16" else 0
        move = partial(kernel.update_halves, store.records.view(np.uint16), low, values)
    shared(
        partial(move, rows, starts, sources, gradients, kind, at, p), _by_work(starts, group.dim)
    )


def _floats(store: RowStore) -> Array:
    return store.records.view(np.float64 if store.group.storage == "fp64" else np.float32)


def _by_work(starts: Array, dim: int) -> list[int]:
    """Bounds of touched rows such that each share has about as many gradients to sum."""
    count, work = len(starts) - 1, int(starts[-1])
    shares = shares_for(work * dim, count)
    cuts = np.searchsorted(starts, [work * share // shares for share in range(1, shares)])
    return [0, *np.minimum(cuts, count).tolist(), count]
