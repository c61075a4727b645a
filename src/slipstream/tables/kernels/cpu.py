"""Lookup and update on the CPU, by compiled kernels."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor

from slipstream.arrays import Array
from slipstream.tables.kernels import reference
from slipstream.tables.kernels import rows as kernel
from slipstream.tables.kernels.threads import even, shared, shares_for
from slipstream.tables.plan import GroupPlan, ListSlots
from slipstream.tables.pooling import POOLINGS, Pooling, pool_lists
from slipstream.tables.spec import Group, Layout
from slipstream.tables.store import RowStore


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
    shift = None if floats else kernel.HALF
    target = out if floats else out.view(np.uint32)

    def singles(first: int, last: int) -> None:
        kernel.lookup(values, shift, slots[first:last], places[first:last], target)

    shared(singles, even(len(places), slots.size * group.dim))
    for place, number in enumerate(group.features):
        if kinds[place] != "single":
            _pool(POOLINGS[kinds[place]], store, values, shift, plan.lists[number], out[:, place])
    outputs = [vectors]
    for number in group.sequences:
        lists, length = plan.lists[number], layout.features[number].length
        steps = torch.zeros(capacity, length, group.dim, dtype=dtype)
        starts = lists.offsets.numpy()
        owner = np.repeat(np.arange(capacity), np.diff(starts))
        step = np.arange(len(owner)) - starts[owner]
        target = steps.view(capacity * length, 1, group.dim).numpy()
        where = np.full((1, capacity * length), -1, dtype=np.int64)
        where[0, owner * length + step] = lists.slots.numpy()
        bits = target if floats else target.view(np.uint32)
        kernel.lookup(values, shift, where, np.zeros(1, dtype=np.int64), bits)
        outputs.append(steps)
    return outputs


def _pool(
    pooling: Pooling,
    store: RowStore,
    values: Array,
    shift: kernel.Shift,
    lists: ListSlots,
    out: Array,
) -> None:
    """Write the pooled lists of a feature, `[capacity, dim]`."""
    if not pooling.is_sum:
        out[:] = pool_lists(pooling, store.look(lists.slots), lists.offsets).numpy()
        return
    slots, offsets = lists.slots.numpy(), lists.offsets.numpy()
    divisors = np.empty(0, dtype=out.dtype)
    if pooling.divisor is not None:
        divisors = pooling.divisor(lists.offsets.diff()).numpy().astype(out.dtype)

    def some(first: int, last: int) -> None:
        own = offsets[first : last + 1]
        kernel.pool(values, shift, slots, own, divisors[first:last], out[first:last])

    shared(some, even(len(offsets) - 1, len(slots) * out.shape[1]))


def update(store: RowStore, plan: GroupPlan, gradient: Tensor, lr: float, step: int) -> None:
    """As `reference.update`, which serves the optimizers that have no kernel."""
    touched, optimizer = plan.touched, store.group.optimizer
    assert touched is not None, "a batch that is only looked up updates nothing"
    if optimizer.kernel is None:
        reference.update(store, plan, gradient, lr, step)
        return
    record, values, starts = store.record, _floats(store), touched.starts.numpy()
    work = kernel.RowUpdate(
        touched.rows.numpy(),
        starts,
        touched.sources.numpy(),
        gradient.contiguous().numpy(),
        values,
        store.records.view(np.uint16),
        store.group.storage in ("bf16", "split-bf16"),
        record.fields["weight_low"].start // 2 if "weight_low" in record.fields else 0,
        np.array([record.fields[n].start // values.itemsize for n in optimizer.slots], np.int64),
        np.array(optimizer.kernel_options(lr, step), dtype=values.dtype),
        values.dtype.type(optimizer.weight_decay),
        max(16, kernel.BLOCK // store.group.dim),
    )
    shared(partial(optimizer.kernel, work), _by_work(starts, store.group.dim))


def _floats(store: RowStore) -> Array:
    return store.records.view(np.float64 if store.group.storage == "fp64" else np.float32)


def _by_work(starts: Array, dim: int) -> list[int]:
    """Bounds of rows such that each share has about as many gradients to sum."""
    count, work = len(starts) - 1, int(starts[-1])
    shares = shares_for(work * dim, count)
    cuts = np.searchsorted(starts, [work * share // shares for share in range(1, shares)])
    return [0, *np.minimum(cuts, count).tolist(), count]
