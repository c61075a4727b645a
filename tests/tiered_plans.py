"""Traces of batches for a fast tier, and what is to become of them, simulated the plain way."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from hypothesis import strategies as st
from tables.layouts import OPTIMIZERS, batch_of, layouts, placement_of

from slipstream.data.batch import Batch, ListBatch
from slipstream.pipeline.place.tier import TierSize
from slipstream.pipeline.place.tiered import Tiered
from slipstream.tables.plan import Plan, Planner
from slipstream.tables.spec import Layout


class Trace(NamedTuple):
    """Batches of a layout, and the fast tier that they meet."""

    layout: Layout
    batches: list[Batch]
    tier_sizes: list[TierSize]
    window: int

    def plans(self, step: int = 1, update: bool = True, row_filter=None) -> list[Plan]:
        planner = Planner(self.placement, update=update, row_filter=row_filter)
        return list(planner.plans(self.batches, step))

    @property
    def placement(self) -> Tiered:
        singles = [f.column for f in self.layout.features if f.kind == "single"]
        return Tiered(self.layout, singles, self.tier_sizes, self.window)

    @property
    def resident(self):
        """The plans with every row in one place."""
        place = placement_of(self.layout)
        return [place.plan(batch.ids, batch.lists, batch.n_valid) for batch in self.batches]

    @property
    def rows(self) -> list[list[set[int]]]:
        """For each batch and group the rows that it needs."""
        return [[set(g.touched.rows.tolist()) for g in groups] for groups in self.resident]

    @property
    def fits(self) -> list[bool]:
        """Whether each batch fits alone, beside what is kept."""
        return [
            all(
                len(rows - set(tier_size.keep.tolist())) <= tier_size.slots - len(tier_size.keep)
                for rows, tier_size in zip(groups, self.tier_sizes, strict=True)
            )
            for groups in self.rows
        ]


def skewed(layout: Layout, capacity: int, n_valid: int, seed: int, skew: int) -> Batch:
    """Random ids: 1 is uniform, the larger the more go to the first rows, 99 all to the first."""
    ids, lists = batch_of(layout, capacity, n_valid, seed)

    def bent(values, rows):
        return (rows * (values / rows) ** skew).to(values.dtype)

    places = [f for f in layout.features if f.kind == "single"]
    for place, feature in enumerate(places):
        ids[:, place] = bent(ids[:, place], layout.table(feature.table).rows)
    for feature in layout.features:
        if feature.kind != "single":
            column = lists[feature.column]
            values = bent(column.values, layout.table(feature.table).rows)
            lists[feature.column] = ListBatch(values, column.offsets)
    numbers = torch.arange(capacity)
    weights = (numbers < n_valid).float()
    return Batch(numbers, weights, weights, torch.zeros(capacity, 0), ids, n_valid, 0, lists=lists)


def some_rows(layout: Layout, seed: int):
    """Chooses the rows that a batch updates: others for each batch, and all of some groups."""

    def row_filter(batch: Batch):
        random = np.random.default_rng([seed, batch.ids.sum().item(), batch.n_valid])
        masks = [torch.from_numpy(random.random(group.rows) < 0.5) for group in layout.groups]
        return [None if random.random() < 0.2 else mask for mask in masks]

    return row_filter


@st.composite
def traces(draw: st.DrawFn, storages=("fp32",), optimizers=OPTIMIZERS, fitting=False) -> Trace:
    """Any few batches, windows from one batch to more than there are, tiers of any size."""
    layout = draw(layouts(storages, optimizers))
    capacity, seed = draw(st.integers(1, 5)), draw(st.integers(0, 999))
    skew = draw(st.sampled_from([1, 2, 4, 99]))
    sizes = [draw(st.sampled_from([capacity] * 4 + [0])) for _ in range(draw(st.integers(0, 9)))]
    if sizes:
        sizes[-1] = draw(st.integers(0, capacity))
    batches = [skewed(layout, capacity, n, seed + k, skew) for k, n in enumerate(sizes)]
    trace = Trace(layout, batches, [], draw(st.integers(1, 12)))
    tier_sizes = []
    for number, group in enumerate(layout.groups):
        keep = draw(st.sets(st.integers(0, group.rows - 1)) | st.just(set(range(group.rows))))
        needs = [len(groups[number] - keep) for groups in trace.rows]
        least = len(keep) + max(needs, default=0) if fitting else max(1, len(keep))
        slots = draw(st.integers(max(1, least), group.rows + 2))
        tier_sizes.append(TierSize(slots, np.array(sorted(keep), dtype=np.int64)))
    return trace._replace(tier_sizes=tier_sizes)


class Moved(NamedTuple):
    """What a step brings in and sends away: for each group a set of rows."""

    fill: list[set[int]]
    evict: list[set[int]]
    after: int


def simulated(trace: Trace) -> list[Moved]:
    """What becomes of the batches, by sets: the window is as long as its rows fit.

    One that does not fit alone brings nothing in: its rows change in the slow tier.
    """
    keep = [set(tier_size.keep.tolist()) for tier_size in trace.tier_sizes]
    wanted = [[s - k for s, k in zip(g, keep, strict=True)] for g in trace.rows]
    inside: list[set[int]] = [set() for _ in keep]
    left: list[dict[int, int]] = [{} for _ in keep]
    steps = []
    for first in range(len(wanted)):
        if not trace.fits[first]:
            for n, rows in enumerate(wanted[first]):
                left[n] |= dict.fromkeys(rows, first + 1)
            nothing: list[set[int]] = [set() for _ in keep]
            steps.append(Moved(nothing, nothing, first))
            continue
        end = first + 1
        while end < min(len(wanted), first + trace.window) and all(
            len(set().union(*(w[n] for w in wanted[first : end + 1])))
            <= tier_size.slots - len(keep[n])
            for n, tier_size in enumerate(trace.tier_sizes)
        ):
            end += 1
        fill = [wanted[first][n] - inside[n] for n in range(len(keep))]
        later = [set().union(*(w[n] for w in wanted[first + 1 : end])) for n in range(len(keep))]
        evict = [wanted[first][n] - later[n] for n in range(len(keep))]
        after = max([left[n].get(row, 0) for n, rows in enumerate(fill) for row in rows], default=0)
        for n in range(len(keep)):
            inside[n] = (inside[n] | fill[n]) - evict[n]
            left[n] |= dict.fromkeys(evict[n], first + 1)
        steps.append(Moved(fill, evict, after))
    return steps
