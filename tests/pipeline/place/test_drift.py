"""On drifting data the kept rows follow what is popular."""

import numpy as np
import pytest

from slipstream import Dataset, Loader, Recipe, synthesize
from slipstream.config import Config
from slipstream.tables.plan import Planner
from slipstream.training import build
from slipstream.training.example_order import order_of, steps_of
from slipstream.training.placement import placement_for, slow_placement, tier_sizes_of

PARTS = 20
TOLERANCE = 0.02


def _plans(dataset, config, planner):
    order = order_of(config, dataset)
    with Loader(dataset.train, config.batch_size, order=order) as loader:
        yield from Planner(planner).plans(loader)


def _top(uses, most):
    return np.argpartition(uses, -most)[-most:] if most else np.empty(0, dtype=np.int64)


def _hit_rates(dataset, config):
    """Mean hit rates over twentieths of the batches but the first.

    The first is that of a strategy. The second keeps as many rows, those that were used most in
    the twentieth before.
    """
    layout = build.model_of(config, dataset).layout
    tier_sizes = tier_sizes_of(config, layout, dataset)
    steps = steps_of(config, order_of(config, dataset))
    bounds = [steps * part // PARTS for part in range(1, PARTS + 1)]
    reached, recomputed, hits, needed = [], [], 0, 0
    for plan in _plans(dataset, config, placement_for(config, layout, dataset, tier_sizes)):
        needed += sum(group.needs for group in plan.groups)
        hits += sum(group.needs - len(group.fill.rows) for group in plan.groups)
        if plan.step in bounds:
            reached.append(hits / needed)
            hits = needed = 0
    uses = [np.zeros(group.rows, dtype=np.int32) for group in layout.groups]
    popular = [_top(counts, 0) for counts in uses]
    for plan in _plans(dataset, config, slow_placement(layout, dataset)):
        for counts, group in zip(uses, plan.groups, strict=True):
            counts[group.touched.rows.numpy()] += 1
        if plan.step in bounds:
            hits_kept = sum(int(n[rows].sum()) for n, rows in zip(uses, popular, strict=True))
            recomputed.append(hits_kept / sum(int(counts.sum()) for counts in uses))
            popular = [
                _top(n, len(tier_size.keep)) for n, tier_size in zip(uses, tier_sizes, strict=True)
            ]
            for counts in uses:
                counts[:] = 0
    return np.mean(reached[1:]), np.mean(recomputed[1:])


@pytest.mark.parametrize("strategy", ["fast", "hotline"])
@pytest.mark.parametrize("drift", ["gradual", "sudden@0.5"])
def test_kept_rows_do_as_well_as_sets_recomputed_every_twentieth(drift, strategy, tmp_path):
    dataset = Dataset.open(synthesize(Recipe(rows=60_000, drift=drift), tmp_path / "data"))
    sizes = ["model.bottom=[16]", "model.top=[16]", "placement.fast_memory=20%"]
    config = Config(strategy=strategy, batch_size=32).with_settings(sizes)
    reached, recomputed = _hit_rates(dataset, config)
    assert recomputed > 0.3, "rows are kept at all"
    assert reached > recomputed - TOLERANCE
