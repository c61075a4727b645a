"""FAE's calibrator: a popularity threshold and the size of its hot set, from a sample.

It serves data whose accesses were not counted. A sample of examples gives accesses; a few rows of
each table, sampled at random, show how many rows reach a threshold, with a bound that holds in all
but a stated share of cases. No table is scanned.

The bound is one of rows as the sample counted them. From some five accesses in the sample on, all
examples agree with it; at a threshold of two or three, many rows reach it by luck.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slipstream.arrays import Array
from slipstream.data.dataset import Part
from slipstream.errors import ConfigError
from slipstream.models.inputs import LINEAR
from slipstream.t_distribution import t_quantile
from slipstream.tables.sizes import row_bytes
from slipstream.tables.spec import Layout

CHUNKS, CHUNK_ROWS, CONFIDENCE = 35, 1024, 0.999
_CONSECUTIVE = 512


class BoundedNumber(NamedTuple):
    """An estimated number with its bounds."""

    likely: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Calibration:
    """The hot set that a sample of examples suggests for a budget."""

    inputs: int  # in the sample
    threshold: int  # accesses in the sample from which a row is hot
    popularity: float  # the same as a share of examples
    rows: BoundedNumber  # the estimated size of the hot set
    bytes: float  # of that many rows
    upper_bytes: float


def calibrate(
    part: Part, layout: Layout, budget: int, *, share: float = 0.05, seed: int = 0
) -> Calibration:
    """Find the lowest threshold whose hot set fits a budget, by the bound of its size.

    Args:
        part: The training part.
        layout: Tables and features.
        budget: Bytes of fast memory, optimizer state counted.
        share: The share of examples to count.
        seed: Seed of the examples and the rows that are sampled.
    """
    counts, examples = sampled_counts(part, share, seed)
    tables: list[tuple[int, Array, list[Array]]] = []
    for group, size in zip(layout.groups, row_bytes(layout), strict=True):
        for table in group.tables:
            accesses = counts[table.name.removesuffix(LINEAR)]
            tables.append((size, accesses, chunks(accesses, seed + len(tables))))

    def hot_set(threshold: int) -> tuple[BoundedNumber, float, float]:
        """The rows, bytes and bound of the bytes of a threshold's hot set."""
        rows = [estimate(sampled, len(accesses), threshold) for _, accesses, sampled in tables]
        sizes = [size for size, _, _ in tables]
        bytes_ = sum(size * number.likely for size, number in zip(sizes, rows, strict=True))
        upper = sum(size * number.upper for size, number in zip(sizes, rows, strict=True))
        return BoundedNumber(*map(sum, zip(*rows, strict=True))), bytes_, upper

    most = max(int(chunk.max(initial=0)) for _, _, sampled in tables for chunk in sampled)
    thresholds = range(1, most + 1)
    threshold = 1 + bisect_left(thresholds, True, key=lambda n: hot_set(n)[2] <= budget)
    rows, bytes_, upper = hot_set(threshold)
    if upper > budget:
        raise ConfigError(
            f"A sample of {examples:,} examples cannot tell which rows fit {budget:,} bytes: the "
            f"bound of the smallest hot set in it is {upper:,.0f} bytes. Sample more examples, or "
            "count all of them."
        )
    return Calibration(examples, threshold, threshold / max(1, examples), rows, bytes_, upper)


def sampled_counts(part: Part, share: float, seed: int) -> tuple[dict[str, Array], int]:
    """The accesses of each row in a share of the examples, and how many examples those are.

    Examples are sampled in runs of 512, which read as fast as a file does.
    """
    runs = -(-len(part) // _CONSECUTIVE)
    wanted = min(runs, max(1, round(runs * share))) if runs else 0
    counts = {table.name: np.zeros(table.rows, dtype=np.int64) for table in part.schema.tables}
    examples = 0
    for run in np.sort(np.random.default_rng(seed).choice(runs, wanted, replace=False)).tolist():
        start, stop = run * _CONSECUTIVE, min((run + 1) * _CONSECUTIVE, len(part))
        for block in part.runs(start, stop):
            for column, ids, _ in block.ids_by_column(part.schema):
                np.add.at(counts[column.table], ids, 1)
        examples += stop - start
    return counts, examples


def chunks(accesses: Array, seed: int = 0) -> list[Array]:
    """The accesses of 35 chunks of 1,024 rows sampled at random; all of them if there are no more.

    FAE takes consecutive rows. Here ids are popularity ranks, so all hot rows would be in a few
    chunks: each row is sampled by itself.
    """
    if len(accesses) <= CHUNKS * CHUNK_ROWS:
        return [accesses]
    random = np.random.default_rng((seed, len(accesses)))
    rows = random.choice(len(accesses), CHUNKS * CHUNK_ROWS, replace=False)
    return [accesses[chunk] for chunk in np.split(rows, CHUNKS)]


def estimate(sampled: list[Array], rows: int, threshold: int) -> BoundedNumber:
    """How many of a table's rows have at least `threshold` accesses, from chunks of it.

    A t-interval over the chunks at 99.9 %. With few hot rows in them it is too narrow, and with
    none it has no width: its upper bound is never below that of the binomial law.
    """
    hits = np.array([int((chunk >= threshold).sum()) for chunk in sampled], dtype=float)
    counted, hot = sum(map(len, sampled)), int(hits.sum())
    if counted >= rows:
        return BoundedNumber(hot, hot, hot)
    likely = hot / counted * rows
    error = float(hits.std(ddof=1)) / math.sqrt(len(hits)) / len(sampled[0]) * rows
    half = t_quantile((1 + CONFIDENCE) / 2, len(hits) - 1) * error
    upper = max(likely + half, binomial_upper(hot, counted, CONFIDENCE) * rows)
    return BoundedNumber(likely, max(float(hot), likely - half), min(float(rows), upper))


def binomial_upper(hits: int, draws: int, confidence: float) -> float:
    """The largest share with which so few hits are not yet too unlikely (Clopper and Pearson).

    Example:
        >>> round(binomial_upper(0, 1000, 0.999), 5)
        0.00757
    """
    if hits >= draws:
        return 1.0
    k = np.arange(hits + 1)
    ways = np.array([math.lgamma(n + 1) + math.lgamma(draws - n + 1) for n in k.tolist()])
    ways = math.lgamma(draws + 1) - ways
    low, high = hits / draws, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        chance = np.exp(ways + k * math.log(middle) + (draws - k) * math.log1p(-middle)).sum()
        low, high = (middle, high) if chance > (1 - confidence) / 2 else (low, middle)
    return high
