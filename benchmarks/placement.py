"""What each strategy's fast tier holds and carries, beside the best possible: from plans alone.

python benchmarks/placement.py [--batches N] [--fast-memory 5%] [--batch-size B]

Criteo-Kaggle shape with all of its rows; ids drawn by its power laws, which also say how often each
row is accessed in a whole epoch. A batch needs each of its rows once; a miss is a row that has to
be brought in. Counted over the second half of the batches, when the tier has filled. The best
possible is Belady's, with the most accessed rows there at the start: what is needed latest leaves
first. BagPipe's own bound for a window of L batches: rows whose previous use is more than L batches
back. `fast` chooses its kept rows anew on the way, as in training. Planning is timed on one core,
that choice among it, beside a whole training step of the same batch size that is shared out to as
many threads without loss. Needs 6 GB of memory.
"""

from __future__ import annotations

import argparse
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass

import cpu_step
import numpy as np
import torch

from slipstream.data.batch import Batch
from slipstream.data.synthetic.draws import PowerLaw
from slipstream.data.synthetic.shapes import SHAPES
from slipstream.pipeline.place.budget import divide_budget
from slipstream.pipeline.place.counting import count, no_transfers, per_input
from slipstream.pipeline.place.popularity import Refresh
from slipstream.pipeline.place.tier import TierSize
from slipstream.pipeline.place.tiered import Tiered
from slipstream.pipeline.strategies import STRATEGIES, TierPolicy
from slipstream.tables.no_cache import NoCache
from slipstream.tables.plan import Planner
from slipstream.tables.sizes import budget_bytes, row_bytes
from slipstream.tables.spec import Layout
from slipstream.training.process_memory import retain_freed_memory

EPOCH = 39_291_958  # inputs of Criteo Kaggle's six days of training
LARGE = 16384
NEVER = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Figures:
    """What was found of one strategy.

    Args:
        hit_rate: Share of the rows that batches needed which were in the fast tier.
        misses: Rows that had to come, an input.
        bytes_moved: Bytes that came and went, an input.
        best: Misses of the best possible with as many slots, an input.
        bound: Misses of BagPipe's bound for the strategy's window, an input.
        window: That window.
        seconds: To plan a batch, on one core.
    """

    hit_rate: float
    misses: float
    bytes_moved: float
    best: float
    bound: float
    window: int
    seconds: float


def draw_batches(batch_size: int, count: int) -> list[Batch]:
    """Batches of ids by the power laws of the shape."""
    shape = SHAPES["criteo-kaggle"]
    laws = [PowerLaw.over(table.rows, table.exponent) for table in shape.tables]
    random = np.random.default_rng(1)
    numbers, weights = torch.arange(batch_size), torch.ones(batch_size)
    batches = []
    for _ in range(count):
        words = random.integers(0, 1 << 64, (len(laws), batch_size), dtype=np.uint64)
        ids = np.stack([law.draw(w) for law, w in zip(laws, words, strict=True)], 1, dtype=np.int32)
        dense = torch.zeros(batch_size, 0)
        ids = torch.from_numpy(ids)
        batches.append(Batch(numbers, weights, weights, dense, ids, batch_size, 0))
    return batches


def accesses(layout: Layout, name: str) -> np.ndarray:
    """How often each row of a table is accessed in an epoch, by its power law."""
    number = [table.name for table in layout.tables].index(name)
    table = SHAPES["criteo-kaggle"].tables[number]
    law = np.arange(1, table.rows + 1, dtype=np.float64) ** -table.exponent
    return np.rint(EPOCH * law / law.sum()).astype(np.int64)


def refresh_of(
    layout: Layout, tier: TierPolicy, tier_sizes: Sequence[TierSize], batches: Sequence[Batch]
) -> Refresh | None:
    """When a strategy chooses its kept rows anew, with the counts of an epoch to begin with."""
    if not tier.keep:
        return None
    known = [np.concatenate([accesses(layout, table.name) for table in layout.tables])]
    count = EPOCH / batches[0].capacity
    most = [len(tier_size.keep) for tier_size in tier_sizes]
    return Refresh.of(tier.refresh, count, most, known=known, counted=count)


class Planning:
    """The plans of a strategy for some batches: what the later ones carry, and their time."""

    def __init__(
        self,
        layout: Layout,
        tier: TierPolicy,
        fast_memory: str,
        batches: Sequence[Batch],
        first: int,
    ) -> None:
        tier_sizes = divide_budget(
            layout,
            lambda name: accesses(layout, name),
            EPOCH,
            budget_bytes(fast_memory, layout),
            keep=tier.keep,
            batch_size=batches[0].capacity,
            window=tier.window,
        )
        self.slots = sum(tier_size.slots for tier_size in tier_sizes)
        names = [feature.column for feature in layout.features]
        refresh = refresh_of(layout, tier, tier_sizes, batches)
        plans = Planner(Tiered(layout, names, tier_sizes, tier.window, refresh=refresh)).plans(
            batches
        )
        self.transfers, self.seconds = no_transfers(), []
        sizes = row_bytes(layout)
        while True:
            begun = time.thread_time()
            plan = next(plans, None)
            if plan is None:
                return
            self.seconds.append(time.thread_time() - begun)
            if plan.step > first:
                count(self.transfers, plan, sizes)

    def a_batch(self, window: int) -> float:
        """Seconds to plan a batch, while one enters the window for each that leaves.

        The mean: in some of them kept rows are chosen anew, and that is part of it.
        """
        return float(np.mean(self.seconds[1 : max(2, len(self.seconds) - window)]))


class Uses:
    """For each batch the rows that it needs, and when each is used next and was used last."""

    def __init__(self, layout: Layout, batches: Sequence[Batch], first: int) -> None:
        self.first = first
        (group,) = layout.groups
        resident = NoCache(layout, [feature.column for feature in layout.features])
        last = np.full(group.rows, -1, dtype=np.int32)
        self.back, rows = [], []
        for step, batch in enumerate(batches):
            (plan,) = resident.plan(batch.ids, batch.lists, batch.n_valid)
            rows.append(plan.touched.rows.numpy().astype(np.int32))
            before = last[rows[-1]]
            self.back.append(np.where(before < 0, NEVER, step - before))
            last[rows[-1]] = step
        last[:] = len(batches)
        self.ahead = []
        for step in range(len(batches) - 1, -1, -1):
            self.ahead.append(np.bincount(last[rows[step]], minlength=len(batches) + 1))
            last[rows[step]] = step
        self.ahead.reverse()
        self.first_use = last

    def bound(self, window: int) -> int:
        """Rows whose previous use is more than so many batches back, or that had none."""
        return sum(int((back > window).sum()) for back in self.back[self.first :])

    def best(self, slots: int, loaded: np.ndarray) -> int:
        """Misses where what is needed latest leaves first, with some rows there at the start."""
        steps = len(self.back)
        next_uses = np.zeros(steps + 1, dtype=np.int64)  # rows in the tier, by their next use
        next_uses += np.bincount(self.first_use[loaded], minlength=steps + 1)
        next_uses[steps] = misses = 0
        size = int(next_uses.sum())
        for step in range(steps):
            misses += (len(self.back[step]) - next_uses[step]) * (step >= self.first)
            size -= next_uses[step]
            next_uses[step] = 0
            next_uses[:steps] += self.ahead[step][:steps]
            size += int(self.ahead[step][:steps].sum())
            latest = steps - 1
            while size > slots:
                evicted = min(next_uses[latest], size - slots)
                next_uses[latest] -= evicted
                size -= evicted
                latest -= 1
        return int(misses)


def measure(options: Namespace) -> tuple[dict[str, Figures], float, float]:
    """The figures of each strategy, a training step's seconds, and inputs planned a second."""
    layout = cpu_step.our_layout("rowwise_adagrad")
    batches = draw_batches(options.batch_size, options.batches)
    first = options.batches // 2
    inputs = (options.batches - first) * options.batch_size
    uses = Uses(layout, batches, first)
    popular = np.argsort(np.concatenate([accesses(layout, table.name) for table in layout.tables]))
    figures = {}
    for name, strategy in STRATEGIES.items():
        tier = strategy.placement
        if tier is None or strategy.ordering != "as-is":  # the batches here are as they come
            continue
        planning = Planning(layout, tier, options.fast_memory, batches, first)
        each = per_input(planning.transfers, inputs)
        figures[name] = Figures(
            hit_rate=each["hits"] / each["lookups"],
            misses=each["misses"],
            bytes_moved=2 * each["bytes_in"],  # what comes leaves again, if not in this trace
            best=uses.best(planning.slots, popular[-planning.slots :]) / inputs,
            bound=uses.bound(tier.window) / inputs,
            window=tier.window,
            seconds=planning.a_batch(tier.window),
        )
    del batches, uses
    tier = STRATEGIES["fast"].placement
    assert tier is not None
    large = Planning(layout, tier, options.fast_memory, draw_batches(LARGE, 64), 0)
    step = step_seconds(options.batch_size) / options.threads
    return figures, step, LARGE / large.a_batch(tier.window)


def step_seconds(batch_size: int) -> float:
    """CPU seconds of a training step on one thread: also on a busy machine it is that."""
    step, seconds = cpu_step.our_step("fp32", compiled=False), []
    for batch in cpu_step.batches(batch_size)[:12]:
        begun = time.process_time()
        step(*batch)
        seconds.append(time.process_time() - begun)
    return float(np.median(seconds[2:]))


def judge(title: str, value: str, reached: bool) -> bool:
    """Print a figure beside its goal; whether it was missed."""
    print(f"{title}: {value}: {'reached' if reached else 'MISSED'}")
    return not reached


def main() -> int:
    """Measure, print the table and the goals reached; status 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=1000)
    parser.add_argument("--fast-memory", default="5%")
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=2, help="of the training step")
    options = parser.parse_args()
    torch.set_num_threads(1)
    retain_freed_memory()
    figures, step, rate = measure(options)
    print(f"batch {options.batch_size:,}, fast memory {options.fast_memory}; for each input:")
    for name, result in figures.items():
        print(
            f"  {name:10} hits {result.hit_rate:6.2%}  misses {result.misses:6.3f}  (best possible "
            f"{result.best:6.3f}, bound of {result.window} batches {result.bound:6.3f})  moved "
            f"{result.bytes_moved:6.0f} bytes  planned in {result.seconds * 1e3:.2f} ms a batch"
        )
    missed = False
    result = figures["bagpipe"]
    ratio = result.misses / result.bound
    missed |= judge("bagpipe's misses", f"{ratio:.3f} times its bound, goal 1.05", ratio <= 1.05)
    result = figures["fast"]
    share = result.seconds / step
    text = f"{share:.1%} of a step of {step * 1e3:.1f} ms, goal 20 %"
    missed |= judge("planning of fast", text, share <= 0.2)
    text = f"{rate / 1e6:.2f} M inputs a second on one core, goal 2 M"
    missed |= judge("planning of fast, batch 16,384", text, rate >= 2e6)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
