"""How well kept rows follow what is popular, beside the best sets that could have been kept.

    python benchmarks/drift.py [--rows N] [--shape criteo-kaggle] [--batch-size 2048] [--judge]

Counted from plans alone, nothing is trained. A hit is a distinct row of a batch that is in the fast
tier already. The yardstick knows the future: for each 5 % of the batches the rows that these need
most often, as many of each group as are kept. Hotline is judged behind its learning phase, the
first 5 %, in which it keeps nothing. With --judge the status is 1 if one of them is more than 2
points below the yardstick.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

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


def hit_rates(dataset: Dataset, config: Config) -> tuple[np.ndarray, np.ndarray]:
    """The share of hits in each chunk of the batches: what was reached, and the yardstick."""
    layout = build.model_of(config, dataset).layout
    rooms = build.rooms_of(config, layout, dataset)
    assert rooms is not None, "these strategies have a fast tier"
    tiered = build.tiered_of(config, layout, dataset, rooms)
    everywhere = build.placement_of(layout, dataset)
    order = build.order_of(config, dataset)
    steps = build.steps_of(config, order)
    bounds = [steps * chunk // CHUNKS for chunk in range(1, CHUNKS + 1)]
    uses = [np.zeros(group.rows, dtype=np.int32) for group in layout.groups]
    reached, best = [], []
    hits = needed = 0
    with Loader(dataset.train, config.batch_size, order=order) as coming:
        for plan in Planner(tiered).plans(coming):
            for group in plan.groups:
                assert group.touched is not None
                assert group.fill is not None
                needed += len(group.touched.rows)
                hits += len(group.touched.rows) - len(group.fill.rows)
            if plan.step in bounds:
                reached.append(hits / needed)
                hits = needed = 0
    with Loader(dataset.train, config.batch_size, order=order) as coming:
        for plan in Planner(everywhere).plans(coming):
            for use, group in zip(uses, plan.groups, strict=True):
                assert group.touched is not None
                use[group.touched.rows.numpy()] += 1
            if plan.step in bounds:
                kept = [len(room.keep) for room in rooms]
                good = sum(int(_top(use, most)) for use, most in zip(uses, kept, strict=True))
                best.append(good / sum(int(use.sum()) for use in uses))
                for use in uses:
                    use[:] = 0
    return np.array(reached), np.array(best)


def _top(uses: np.ndarray, most: int) -> int:
    """The uses of the rows that are used most."""
    return int(np.partition(uses, -most)[-most:].sum()) if most else 0


def settings(strategy: str, batch_size: int, fast_memory: str) -> Config:
    """How a strategy is measured: the sizes of the dense part do not matter."""
    sizes = ["model.bottom=[16]", "model.top=[16]", f"placement.fast_memory={fast_memory}"]
    return Config(strategy=strategy, batch_size=batch_size).with_settings(sizes)


def main() -> int:
    """Make the data sets, count, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000, help="inputs of each data set")
    parser.add_argument("--shape", default="criteo-kaggle", help="of the built-in data")
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--fast-memory", default="5%")
    parser.add_argument("--judge", action="store_true", help="fail where the bound does not hold")
    options = parser.parse_args()
    print("| drift | strategy | hits | best set of every 5 % | points below |")
    print("|---|---|---:|---:|---:|")
    held = True
    for drift in DRIFTS:
        with tempfile.TemporaryDirectory() as folder:
            recipe = Recipe(options.shape, options.rows, drift=drift)
            dataset = Dataset.open(synthesize(recipe, Path(folder) / "data"))
            for name in STRATEGIES:
                config = settings(name, options.batch_size, options.fast_memory)
                reached, best = hit_rates(dataset, config)
                first = 1 if name == "hotline" else 0
                ours, theirs = reached[first:].mean(), best[first:].mean()
                held &= bool(ours >= theirs - POINTS)
                cells = (f"{ours:.2%}", f"{theirs:.2%}", f"{100 * (theirs - ours):.2f}")
                print(f"| {drift} | {name} | {' | '.join(cells)} |", flush=True)
    return 0 if held or not options.judge else 1


if __name__ == "__main__":
    sys.exit(main())
