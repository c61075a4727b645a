"""Plans that a device finishes: it finds kept rows and touched rows, the host plans the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np
import torch

from slipstream.config import Config
from slipstream.data.batch import Batch, OnRead
from slipstream.gpu.planning.cold_lookups import kept_of
from slipstream.gpu.planning.cold_planner import ColdPlanner
from slipstream.gpu.planning.cold_tier import ColdPlan
from slipstream.gpu.planning.plan_ahead import plans_in_threads, read_at_once, uses_gpu, window_of
from slipstream.pipeline.place.tier import TierSize
from slipstream.pipeline.place.tiered import Tiered
from slipstream.quick import quick
from slipstream.tables.no_cache import NoCache
from slipstream.tables.plan import (
    Batches,
    ColdLookups,
    GroupPlan,
    KeptPrefix,
    Placed,
    RowFilter,
    RowSlots,
)
from slipstream.tables.spec import Layout

_NO_SLOTS = torch.empty((0, 0), dtype=torch.int64)
_MOST_ROWS = 2**31


def device_finds_rows(
    config: Config, layout: Layout, singles: Sequence[str], tier_sizes: Sequence[TierSize]
) -> bool:
    """Whether a GPU computes the slots of the rows that stay in these tiers from their ids."""
    return uses_gpu(config, tier_sizes) and can_finish(layout, singles, tier_sizes)


def can_finish(layout: Layout, singles: Sequence[str], tier_sizes: Sequence[TierSize]) -> bool:
    """Whether a device can find the kept rows of these tiers by their ids.

    It can where all features are single, and the kept rows of a table are its first ones.
    """
    small = all(table.rows < _MOST_ROWS for table in layout.tables)
    pairs = zip(layout.groups, tier_sizes, strict=True)
    return small and all(
        kept_of(layout, group, singles, tier_size.keep) is not None for group, tier_size in pairs
    )


class DevicePlacement:
    """Plans which rows come and go, as `Tiered` does with kept rows that stay the same.

    `can_finish` must hold for the layout. `window` is the most batches to look ahead, the current
    one among them. `cold` plans the rows that do not stay; None makes a planner without threads.
    """

    def __init__(
        self,
        layout: Layout, singles: Sequence[str], tier_sizes: Sequence[TierSize], window: int,
        cold: ColdPlanner | None = None,
    ) -> None:  # fmt: skip
        self._tier_sizes = tier_sizes
        self._resident = NoCache(layout, singles)
        self._cold = cold or ColdPlanner(layout, singles, tier_sizes, window)
        self._whole = Tiered(layout, singles, tier_sizes, window)

    remembers = False

    @property
    def on_read(self) -> OnRead | None:
        """The function that scans batches as soon as they are read."""
        return self._cold.on_read

    def resident_rows(self) -> Sequence[RowSlots]:
        """The rows that stay, their slots, and how the device finds them."""
        resident = []
        for tier_size, rows in zip(self._tier_sizes, self._cold.kept_rows, strict=True):
            assert rows is not None, "only for tiers whose plans a device can finish"
            numbers = (rows.columns, rows.limits, rows.bases)
            columns, limits, bases = (torch.from_numpy(array).int() for array in numbers)
            tables = (torch.from_numpy(array) for array in (rows.starts, rows.sizes))
            numbered = KeptPrefix(columns, limits, bases, *tables)
            resident.append(RowSlots(tier_size.keep, np.arange(len(tier_size.keep)), numbered))
        return resident

    def place(
        self, batches: Batches, step: int, *, update: bool, row_filter: RowFilter | None = None
    ) -> Iterator[Placed]:
        """What comes before each batch and what leaves after it; the device finds the rest."""
        if not update or row_filter is not None:  # a device moves every row that a batch needs
            yield from self._whole.place(batches, step, update=update, row_filter=row_filter)
            return
        counts = [len(tier_size.keep) for tier_size in self._tier_sizes]
        # Closed half-way, it ends its threads at once.
        with closing(self._cold.place(batches, step)) as placed:
            for batch, groups, after, oversized_batch in placed:
                if oversized_batch:
                    yield Placed(batch, self._oversized_batch(batch, groups), after)
                    continue
                plans = (_plan(group, count) for group, count in zip(groups, counts, strict=True))
                yield Placed(batch, tuple(plans), after)

    def _oversized_batch(self, batch: Batch, groups: Sequence[ColdPlan]) -> tuple[GroupPlan, ...]:
        """The plans of a batch that is trained in the slow tier."""
        plans = []
        whole = self._resident.plan(batch.ids, batch.lists, batch.n_valid)
        for group, cold, tier_size in zip(whole, groups, self._tier_sizes, strict=True):
            assert group.touched is not None, "it is planned for training"
            rows = group.touched.rows.numpy()
            at = np.searchsorted(tier_size.keep, rows)
            stays = np.append(tier_size.keep, -1)[at] == rows
            borrowed = RowSlots(
                np.concatenate([rows[stays], cold.fill_rows]),
                np.concatenate([at[stays], cold.fill_slots]),
            )
            evict, n_kept = RowSlots(cold.evict_rows, cold.evict_slots), len(tier_size.keep)
            plan = replace(group, evict=evict, borrowed=borrowed)
            plans.append(replace(plan, needs=len(rows), kept_rows=n_kept))
        return tuple(plans)


def _plan(plan: ColdPlan, n_kept: int) -> GroupPlan:
    assert plan.many is not None, "an oversized batch has another plan"
    return quick(
        GroupPlan,
        slots=_NO_SLOTS,
        lists={},
        fill=RowSlots(plan.fill_rows, plan.fill_slots),
        evict=RowSlots(plan.evict_rows, plan.evict_slots),
        kept_rows=n_kept,
        cold=ColdLookups(plan.places, plan.slots, plan.many, plan.at),
    )


def device_placement(
    config: Config, layout: Layout, singles: Sequence[str], tier_sizes: Sequence[TierSize]
) -> DevicePlacement:
    """Where rows are if `device_finds_rows`: the host plans only the other rows."""
    parts = (layout, singles, tier_sizes, window_of(config))
    threads, at_once = plans_in_threads(config, tier_sizes), read_at_once(config, tier_sizes)
    return DevicePlacement(*parts, ColdPlanner(*parts, threads, at_once))
