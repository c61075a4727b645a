"""From the gradients of looked up vectors to gradients of rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from slipstream.tables.plan import GroupPlan
from slipstream.tables.pooling import POOLINGS, row_gradients
from slipstream.tables.spec import Group, Layout
from slipstream.tables.store import RowStore


def gradient_vectors(
    layout: Layout,
    group: Group,
    store: RowStore,
    plan: GroupPlan,
    vectors: Tensor,
    sequences: Sequence[Tensor],
) -> Tensor:
    """The gradient vectors of a group `[number, dim]`, as `GradientIndex` numbers them."""
    divisors, of_values = None, []
    for place, number in enumerate(group.features):
        if layout.features[number].kind == "single":
            continue
        pooling, lists = POOLINGS[layout.features[number].kind], plan.lists[number]
        if not pooling.is_sum:
            rows = store.look(lists.slots)
            of_values.append(row_gradients(pooling, rows, lists.offsets, vectors[:, place]))
        elif pooling.divisor is not None:
            if divisors is None:
                divisors = torch.ones(*vectors.shape[:2], 1, dtype=vectors.dtype)
            divisors[:, place, 0] = pooling.divisor(lists.offsets.diff().clamp(min=1))
    if divisors is not None:
        vectors = vectors / divisors
    flat = [piece.reshape(-1, group.dim) for piece in (vectors, *sequences, *of_values)]
    return flat[0] if len(flat) == 1 else torch.cat(flat)
