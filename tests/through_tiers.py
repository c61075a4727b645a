"""Trains the rows of tables by plans, with random gradients: through a fast tier, or without."""

from __future__ import annotations

from collections import deque

import numpy as np
import torch
from tables.layouts import placement_of

from slipstream.tables.plan import Plan, Planner
from slipstream.tables.tables import Embeddings

AHEAD = 3


def step(tables: Embeddings, plan: Plan) -> None:
    """One step with a gradient at every vector that depends on the step alone."""
    tables.arrive(plan)
    embedded = tables.lookup(plan.groups)
    generator = torch.Generator().manual_seed(plan.step)
    for leaf in (*embedded.vectors, *embedded.sequences):
        leaf.grad = torch.randn(leaf.shape, generator=generator, dtype=leaf.dtype)
    tables.update(plan.groups, embedded, step=plan.step)
    tables.leave(plan)


def through(tables: Embeddings, plans, after=lambda plan: None) -> None:
    """Step through plans, some of which are prepared ahead, as the training loop does."""
    plans, coming = iter(plans), deque()
    while True:
        while len(coming) < AHEAD and (plan := next(plans, None)) is not None:
            tables.prepare(plan)
            coming.append(plan)
        if not coming:
            return
        plan = coming.popleft()
        step(tables, plan)
        after(plan)


def tiered(trace, **options) -> Embeddings:
    """Tables with the fast tier of a trace, and what is kept in it."""
    tables = Embeddings(
        trace.layout, slots=[tier_size.slots for tier_size in trace.tier_sizes], **options
    )
    tables.keep(trace.placement.resident_rows())
    return tables


def in_place(trace, row_filter=None, **options) -> Embeddings:
    """Tables that were trained in the slow store by the batches of a trace."""
    tables = Embeddings(trace.layout, **options)
    for plan in Planner(placement_of(trace.layout), row_filter=row_filter).plans(trace.batches):
        step(tables, plan)
    return tables


def assert_same_bits(tables: Embeddings, other: Embeddings) -> None:
    for left, right in zip(tables.stores, other.stores, strict=True):
        np.testing.assert_array_equal(left.records, right.records)
