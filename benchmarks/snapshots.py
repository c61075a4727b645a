"""How long a step takes while a snapshot of rows is made beside it, and if it is made at once.

    python benchmarks/snapshots.py [--inputs 200000] [--rows 40000] [--dim 64] [--batch 1024]

The rule movement with all rows hot, on 26 columns of evenly drawn ids: every step touches as many
rows as it can. The same run in turns with slices as they are, and with one that holds everything.
A step's time is the processor time of the training thread, so that what else the machine does
counts for little. The step that ends a snapshot also searches a threshold, and stands apart.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from slipstream import Dataset, from_arrays
from slipstream.config import Config
from slipstream.skipping import snapshots
from slipstream.skipping.snapshots import Snapshot
from slipstream.training.loop import train
from slipstream.training.state import Hooks

TURNS = 2
LEAST = 1000  # rows of a snapshot that is a rule's, and not that of the ten rows which are watched


class Steps:
    """The seconds of each step, by what a snapshot did in it."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {"none": [], "slice": [], "decision": []}
        self._last, self.what, self.bytes = 0.0, "none", 0

    def ask(self) -> bool:
        """A step has ended, and the next begins."""
        now = time.thread_time()
        if self._last:
            self.seconds[self.what].append(now - self._last)
        self._last, self.what = now, "none"
        return False


def measured(dataset: Dataset, config: Config, slice_bytes: int, out: Path) -> Steps:
    """One run with slices of that size."""
    steps, go_on, size = Steps(), Snapshot.go_on, snapshots.SLICE

    def told(snapshot: Snapshot) -> bool:
        under_way = snapshot.under_way
        ended = go_on(snapshot)
        if under_way and len(snapshot.rows) >= LEAST:
            steps.what = "decision" if ended and snapshot.compares else "slice"
            steps.bytes = sum(one.nbytes for one in snapshot.state_dict().values() if one.ndim == 2)
        return ended

    Snapshot.go_on, snapshots.SLICE = told, slice_bytes  # type: ignore[method-assign]
    try:
        train(dataset, config, out, hooks=Hooks(stop=steps.ask))
    finally:
        Snapshot.go_on, snapshots.SLICE = go_on, size  # type: ignore[method-assign]
    return steps


def main() -> None:
    """Measure, in turns, and print a line for each kind of step."""
    options = parser().parse_args()
    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    dataset = from_arrays(
        labels=random.integers(0, 2, options.inputs),
        columns={f"c{k}": random.integers(0, options.rows, options.inputs) for k in range(26)},
        dense={"d": random.normal(size=options.inputs).astype(np.float32)},
        min_count=0,
        validation=0.05,
        evaluation=0.05,
    )
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "skip.rule": "movement",
            "skip.hot_memory": "100%",
            "skip.hot_sample": 1,
            "skip.guard": "false",
            "skip.interval": 0.5,
            "skip.warmup": 0.55,
            "model.dim": options.dim,
            "model.bottom": "[64]",
            "model.top": "[64]",
            "embedding.optimizer": "sgd",
            "evaluate.at": "[]",
            "log.tensorboard": "false",
            "compile": "off",
            "threads": 1,
        }
        config = Config(batch_size=options.batch).with_settings(
            f"{key}={value}" for key, value in settings.items()
        )
        for turn in range(TURNS):
            for name, size in (("beside", snapshots.SLICE), ("at once", 1 << 60)):
                steps = measured(dataset, config, size, Path(folder) / f"{turn}-{size}")
                say(turn, name, steps)


def say(turn: int, name: str, steps: Steps) -> None:
    """What steps took."""
    told = "; ".join(
        f"{what}: {len(some)} steps, median {1000 * statistics.median(some):.1f} ms, longest "
        f"{1000 * max(some):.1f} ms"
        for what, some in steps.seconds.items()
        if some
    )
    print(f"turn {turn + 1}, {steps.bytes >> 20} MiB {name}: {told}", flush=True)


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--inputs", type=int, default=200_000, help="of the data set")
    made.add_argument("--rows", type=int, default=40_000, help="values of each column")
    made.add_argument("--dim", type=int, default=64, help="elements of a row")
    made.add_argument("--batch", type=int, default=1024, help="inputs of a step")
    return made


if __name__ == "__main__":
    main()
