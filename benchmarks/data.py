"""How fast inputs are read into batches, beside copying the same bytes with NumPy.

python benchmarks/data.py [--rows N] [--batch-size B] [--repeats R]

Every pass opens the data set anew and goes through it once, from the page cache, as one epoch of
a run does; passes alternate and the medians count. A second table shows passes over pages that
are already mapped. Also how fast built-in data is made.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from slipstream import Dataset, InputOrder, Loader, Part, Recipe, synthesize

NAMES = ("ids", "dense", "labels")


def copy(part: Part, batch_size: int) -> float:
    """Seconds to copy every batch's bytes in order with NumPy, into arrays made once."""
    buffers: list[np.ndarray] = []
    begun = time.perf_counter()
    for shard in part.shards:
        arrays = [shard.fixed()[name] for name in NAMES]
        if not buffers:
            buffers = [np.empty((batch_size, *a.shape[1:]), dtype=a.dtype) for a in arrays]
        for start in range(0, len(shard), batch_size):
            stop = min(start + batch_size, len(shard))
            for buffer, array in zip(buffers, arrays, strict=True):
                np.copyto(buffer[: stop - start], array[start:stop])
    return time.perf_counter() - begun


def load(part: Part, batch_size: int, seed: int | None) -> float:
    """Seconds for the loader to hand out every batch."""
    begun = time.perf_counter()
    with Loader(part, batch_size, order=InputOrder(len(part), seed=seed)) as loader:
        inputs = sum(batch.n_valid for batch in loader)
    assert inputs == len(part), "every input is read once"
    return time.perf_counter() - begun


def compare(
    open_part: Callable[[], Part], batch_size: int, repeats: int, title: str
) -> dict[str, float]:
    """Print the medians of alternating passes; give the ratio of each against copying."""
    seconds: dict[str, list[float]] = {"NumPy copy": [], "in order": [], "block-shuffled": []}
    for repeat in range(repeats + 1):
        passes = (
            copy(open_part(), batch_size),
            load(open_part(), batch_size, None),
            load(open_part(), batch_size, repeat),
        )
        if repeat:  # the first warms the page cache
            for times, seconds_of_pass in zip(seconds.values(), passes, strict=True):
                times.append(seconds_of_pass)
    part = open_part()
    size = sum(shard.fixed()[name].nbytes for shard in part.shards for name in NAMES)
    print(f"\n{title}\n\n| | inputs/s | GB/s | of NumPy's copy |\n|---|---|---|---|")
    plain = statistics.median(seconds["NumPy copy"])
    ratios = {}
    for name, times in seconds.items():
        middle = statistics.median(times)
        ratios[name] = plain / middle
        rate, speed = len(part) / middle / 1e6, size / middle / 1e9
        print(f"| {name} | {rate:.1f} M | {speed:.1f} | {ratios[name]:.2f} |")
    return ratios


def verdict(title: str, value: float, wanted: float) -> bool:
    """Print whether a figure reaches its goal, and return it."""
    print(
        f"{title}: {value:.2f}, wanted {wanted:.2f}: {'reached' if value >= wanted else 'MISSED'}"
    )
    return value >= wanted


def main() -> int:
    """Make the data, then measure; exit status 1 if a figure is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--batch-size", type=int, default=16_384)
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "criteo"
        begun = time.perf_counter()
        synthesize(Recipe("criteo-kaggle", arguments.rows), out)
        seconds = time.perf_counter() - begun
        print(
            f"synth criteo-kaggle: {arguments.rows:,} rows in {seconds:.1f} s, "
            f"{arguments.rows / seconds / 1e3:.0f} k rows/s"
        )

        def anew() -> Part:
            return Dataset.open(out).train

        title = f"loader, batch {arguments.batch_size:,}, 26 + 13 columns"
        anew_title = f"{title}, each pass opens anew"
        ratios = compare(anew, arguments.batch_size, arguments.repeats, anew_title)
        part = anew()
        mapped = f"{title}, pages already mapped"
        compare(lambda: part, arguments.batch_size, arguments.repeats, mapped)
    print()
    reached = [
        verdict("synth, M rows/s", arguments.rows / seconds / 1e6, 0.25),
        verdict("in order, each pass opens anew, of NumPy's copy", ratios["in order"], 0.5),
        verdict("block-shuffled, likewise", ratios["block-shuffled"], 0.25),
    ]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
