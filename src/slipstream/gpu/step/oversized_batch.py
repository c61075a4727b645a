"""A plan whose rows do not fit the fast tier: it gets slots of its own for one step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from slipstream.arrays import Array
from slipstream.tables.plan import GroupPlan, ListSlots, Plan, RowSlots

_NONE = np.empty(0, dtype=np.int64)
_NOTHING = RowSlots(_NONE, _NONE)


def by_itself(plan: Plan) -> tuple[list[Array], Plan]:
    """The rows that an oversized batch needs, and its plan with these in slots of their own.

    Row `rows[k]` of a group is in slot k.
    """
    rows, groups = [], []
    for group in plan.groups:
        used = [group.slots.numpy().reshape(-1)]
        used += [lists.slots.numpy() for lists in group.lists.values()]
        own = np.unique(np.concatenate(used))
        own = own[own >= 0]
        rows.append(own)
        groups.append(_renumbered(group, own))
    return rows, replace(plan, groups=tuple(groups))


def _renumbered(group: GroupPlan, rows: Array) -> GroupPlan:
    def slots(of: Tensor) -> Tensor:
        places = torch.from_numpy(np.searchsorted(rows, of.numpy()))
        return torch.where(of < 0, of, places)

    assert group.touched is not None, "plans for a device are plans for training"
    lists = {n: ListSlots(slots(own.slots), own.offsets) for n, own in group.lists.items()}
    touched = replace(group.touched, rows=slots(group.touched.rows))
    return GroupPlan(slots(group.slots), lists, touched, _NOTHING, _NOTHING)
