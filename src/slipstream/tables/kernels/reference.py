"""The plain reference: lookup and update in PyTorch, slow and obvious. It tests all else."""

from __future__ import annotations

import torch
from torch import Tensor

from slipstream.tables.plan import GroupPlan
from slipstream.tables.pooling import POOLINGS, pool_lists
from slipstream.tables.spec import Group, Layout
from slipstream.tables.store import RowStore


def lookup(layout: Layout, group: Group, store: RowStore, plan: GroupPlan) -> list[Tensor]:
    """The vectors of a group `[capacity, features, dim]`, then each of its sequences."""
    capacity = plan.slots.shape[1]
    dtype = torch.float64 if group.storage == "fp64" else torch.float32
    vectors = torch.zeros(capacity, len(group.features), group.dim, dtype=dtype)
    singles = 0
    for place, number in enumerate(group.features):
        kind = layout.features[number].kind
        if kind == "single":
            slots = plan.slots[singles]
            valid = slots >= 0
            vectors[valid, place] = store.look(slots[valid])
            singles += 1
            continue
        lists, pooling = plan.lists[number], POOLINGS[kind]
        vectors[:, place] = pool_lists(pooling, store.look(lists.slots), lists.offsets)
    outputs = [vectors]
    for number in group.sequences:
        lists, length = plan.lists[number], layout.features[number].length
        steps = torch.zeros(capacity, length, group.dim, dtype=dtype)
        for i in range(capacity):
            rows = store.look(lists.slots[lists.offsets[i] : lists.offsets[i + 1]])
            steps[i, : len(rows)] = rows
        outputs.append(steps)
    return outputs


def update(store: RowStore, plan: GroupPlan, gradient: Tensor, lr: float, step: int) -> None:
    """Move the rows: the parts of each row's gradient are summed, then applied once."""
    touched, optimizer = plan.touched, store.group.optimizer
    assert touched is not None, "a batch that is only looked up updates nothing"
    owner = torch.repeat_interleave(torch.arange(len(touched.rows)), touched.starts.diff())
    rows, state = store.read(touched.rows)
    summed = torch.zeros_like(rows)
    summed.index_add_(0, owner, gradient[touched.sources])
    if optimizer.weight_decay:
        summed += optimizer.weight_decay * rows
    store.write(touched.rows, optimizer.update(rows, state, summed, lr, step), state)
