"""Where the rows of a run live: the size of its fast tier, and the placement that plans it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slipstream import gpu
from slipstream.config import Config
from slipstream.data.dataset import Dataset
from slipstream.pipeline.place.accesses import Popularity, accesses_of
from slipstream.pipeline.place.budget import auto_bytes, divide_budget, least_bytes
from slipstream.pipeline.place.popularity import Refresh
from slipstream.pipeline.place.tier import TierSize
from slipstream.pipeline.place.tiered import Tiered
from slipstream.pipeline.place.working_set import WorkingSet, working_set_bound, working_set_of
from slipstream.pipeline.strategies import strategy_of
from slipstream.tables.no_cache import NoCache
from slipstream.tables.plan import Placement
from slipstream.tables.sizes import all_bytes, budget_bytes, row_bytes
from slipstream.tables.spec import Layout
from slipstream.training.example_order import order_of

# If the fast tier holds this many batches, a bound on the rows of a batch is exact enough.
_SMALL_BATCH = 16


def tier_sizes_of(config: Config, layout: Layout, dataset: Dataset) -> list[TierSize] | None:
    """The fast tier of each group; None for a strategy without one."""
    use = strategy_of(config).placement
    if use is None:
        return None
    window = gpu.window_of(config)
    return tier_sizes_for(config, layout, dataset, keep=use.keep, window=window)


def tier_sizes_for(
    config: Config, layout: Layout, dataset: Dataset, *, keep: bool, window: int
) -> list[TierSize]:
    """The fast tier of each group, with these kept rows and this window."""
    return divide_budget(
        layout,
        dataset.counts,
        len(dataset.train),
        fast_bytes(config, layout, dataset),
        keep=keep,
        batch_size=config.batch_size,
        window=window,
        needed=working_set(config, layout, dataset),
        apart=strategy_of(config).apart,
    )


def fast_bytes(config: Config, layout: Layout, dataset: Dataset) -> int:
    """The bytes of the fast tier."""

    def auto() -> int:
        largest = working_set(config, layout, dataset).largest
        return auto_bytes(Popularity.of(layout, dataset.counts), largest)

    return budget_bytes(config.placement.fast_memory, layout, auto)


def working_set(config: Config, layout: Layout, dataset: Dataset) -> WorkingSet:
    """The most rows that a batch needs, or an upper bound where the fast tier is large.

    All batches are read only if the bound is more than a small part of the fast tier. If hot and
    cold examples are trained apart, these are the batches in the order of the data set, because
    which examples are hot depends on the rows in the fast tier.
    """
    lists = dataset.manifest.parts["train"].lists
    longest = {name: stats.longest for name, stats in lists.items()}
    bound = working_set_bound(layout, config.batch_size, longest)
    budget = budget_bytes(config.placement.fast_memory, layout, lambda: all_bytes(layout))
    if _SMALL_BATCH * least_bytes(row_bytes(layout), bound.largest) <= budget:
        return bound
    return working_set_of(layout, dataset, config.batch_size, order_of(config, dataset))


def placement_for(
    config: Config, layout: Layout, dataset: Dataset, tier_sizes: Sequence[TierSize] | None
) -> Placement:
    """The placement of a training: it finds the rows of batches, and plans the fast tier."""
    strategy = strategy_of(config)
    use, split = strategy.placement, strategy.ordering == "split"
    if use is None or tier_sizes is None:
        return slow_placement(layout, dataset)
    if device_finds_rows(config, layout, dataset, tier_sizes):
        return gpu.device_placement(config, layout, _singles(dataset), tier_sizes)
    refresh = None
    if use.keep:
        refresh = Refresh.of(
            use.refresh,
            order_of(config, dataset).per_epoch / config.batch_size,
            [len(tier_size.keep) for tier_size in tier_sizes],
            learning=use.learning,
            known=None if use.learning else accesses_of(layout, dataset.counts),
            counted=len(dataset.train) / config.batch_size,
        )
    if use.learning:  # nothing is kept at the start
        tier_sizes = [replace(tier_size, keep=tier_size.keep[:0]) for tier_size in tier_sizes]
    window = gpu.window_of(config)
    return Tiered(layout, _singles(dataset), tier_sizes, window, refresh=refresh, split=split)


def device_finds_rows(
    config: Config, layout: Layout, dataset: Dataset, tier_sizes: Sequence[TierSize]
) -> bool:
    """Whether a GPU finds kept rows by itself, so that the host plans only the others."""
    use = strategy_of(config).placement
    if use is None or use.learning or strategy_of(config).ordering == "split":
        return False
    return gpu.device_finds_rows(config, layout, _singles(dataset), tier_sizes)


def slow_placement(layout: Layout, dataset: Dataset) -> NoCache:
    """The placement without a fast tier: all rows are in the slow store."""
    return NoCache(layout, _singles(dataset))


def _singles(dataset: Dataset) -> list[str]:
    return [column.name for column in dataset.schema.singles]


def all_rows_resident(layout: Layout) -> list[TierSize]:
    """A fast tier in which all rows stay."""
    return [TierSize(group.rows, np.arange(group.rows)) for group in layout.groups]
