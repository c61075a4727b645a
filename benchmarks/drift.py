"""How well kept rows follow what is popular, beside the best sets that could have been kept.

    python benchmarks/drift.py [--rows N] [--shape criteo-kaggle] [--batch-size 512] [--judge]

Counted from plans alone, nothing is trained. A hit is a distinct row of a batch that is in the fast
tier already. There are three yardsticks, all of as many rows of each group as are kept, changed
every 5 % of the batches: the rows that these batches need most often, which takes knowing the
future; those that the 5 % before needed, which is what a user could do; and those that all batches
before needed, which without drift is the most that the past can say. The first 5 % are left out:
there hotline learns, and keeps nothing. With --judge the status is 1 if a strategy is more than 2
points below the first yardstick.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from slipstream import Dataset, Recipe, synthesize
from slipstream.config import Config
from slipstream.data.loader import Loader
from slipstream.plan import Planner
from slipstream.training import build

DRIFTS = ("none", "popularity=gradual", "popularity=sudden@0.5")
STRATEGIES = ("fast", "hotline")
CHUNKS = 20
POINTS = 0.02


class Hits(NamedTuple):
    """The shares of hits in the chunks of the batches but the first.

    Args:
        reached: By a strategy.
        best: With the best rows of each chunk.
        before: With the best rows of the chunk before.
        so_far: With the best rows of all chunks before.
    """

    reached: float
    best: float
    before: float
    so_far: float


def hit_rates(dataset: Dataset, config: Config) -> Hits:
    """Count the hits of a strategy, and what sets of as many rows would have had."""
    layout = build.model_of(config, dataset).layout
    rooms = build.rooms_of(config, layout, dataset)
    assert rooms is not None, "these strategies have a fast tier"
    tiered = build.tiered_of(config, layout, dataset, rooms)
    everywhere = build.placement_of(layout, dataset)
    order = build.order_of(config, dataset)
    steps = build.steps_of(config, order)
    bounds = [steps * chunk // CHUNKS for chunk in range(1, CHUNKS + 1)]
    uses = [np.zeros(group.rows, dtype=np.int32) for group in layout.groups]
    reached, best, before, so_far = [], [], [], []
    sets = past = [np.empty(0, dtype=np.int64) for _ in rooms]
    all_uses = [np.zeros(group.rows, dtype=np.int32) for group in layout.groups]
    hits = needed = 0
    with Loader(dataset.train, config.batch_size, order=order) as coming:
        for plan in Planner(tiered).plans(coming):
            for group in plan.groups:
                assert group.fill is not None
                needed += group.needs
                hits += group.needs - len(group.fill.rows)
            if plan.step in bounds:
                reached.append(hits / needed)
                hits = needed = 0
    with Loader(dataset.train, config.batch_size, order=order) as coming:
        for plan in Planner(everywhere).plans(coming):
            for use, group in zip(uses, plan.groups, strict=True):
                assert group.touched is not None
                use[group.touched.rows.numpy()] += 1
            if plan.step in bounds:
                total = sum(int(use.sum()) for use in uses)
                before.append(_hits(uses, sets) / total)
                so_far.append(_hits(uses, past) / total)
                sets = [_top(use, len(r.keep)) for use, r in zip(uses, rooms, strict=True)]
                best.append(_hits(uses, sets) / total)
                for use, every in zip(uses, all_uses, strict=True):
                    every += use
                    use[:] = 0
                past = [_top(use, len(r.keep)) for use, r in zip(all_uses, rooms, strict=True)]
    return Hits(*(float(np.mean(one[1:])) for one in (reached, best, before, so_far)))


def _hits(uses: list[np.ndarray], sets: list[np.ndarray]) -> int:
    return sum(int(use[rows].sum()) for use, rows in zip(uses, sets, strict=True))


def _top(uses: np.ndarray, most: int) -> np.ndarray:
    """The rows that are used most."""
    return np.argpartition(uses, -most)[-most:] if most else np.empty(0, dtype=np.int64)


def settings(strategy: str, batch_size: int, fast_memory: str) -> Config:
    """How a strategy is measured: the sizes of the dense part do not matter."""
    sizes = ["model.bottom=[16]", "model.top=[16]", f"placement.fast_memory={fast_memory}"]
    return Config(strategy=strategy, batch_size=batch_size).with_settings(sizes)


def main() -> int:
    """Make the data sets, count, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000, help="inputs of each data set")
    parser.add_argument("--shape", default="criteo-kaggle", help="of the built-in data")
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--fast-memory", default="5%")
    parser.add_argument("--judge", action="store_true", help="fail where the bound does not hold")
    options = parser.parse_args()
    print(
        "| drift | strategy | hits | best set of each 5 % | of the 5 % before | of all before "
        "| points below |"
    )
    print("|---|---|---:|---:|---:|---:|---:|")
    held = True
    for drift in DRIFTS:
        with tempfile.TemporaryDirectory() as folder:
            recipe = Recipe(options.shape, options.rows, drift=drift)
            dataset = Dataset.open(synthesize(recipe, Path(folder) / "data"))
            for name in STRATEGIES:
                config = settings(name, options.batch_size, options.fast_memory)
                hits = hit_rates(dataset, config)
                below = hits.best - hits.reached
                held &= below <= POINTS
                shares = " | ".join(f"{share:.2%}" for share in hits)
                print(f"| {drift} | {name} | {shares} | {100 * below:.2f} |", flush=True)
    return 0 if held or not options.judge else 1


if __name__ == "__main__":
    sys.exit(main())
