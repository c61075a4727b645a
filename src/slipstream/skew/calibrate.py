"""FAE's calibrator: a popularity threshold and the size of its hot set, from a sample.

For data that was not counted. A sample of inputs gives accesses; a few rows of each table, drawn
at random, tell how many reach a threshold, with a bound that holds in all but a stated share of
cases. No table is scanned for it.

The bound is one of rows as the sample counted them. From some five accesses in the sample on,
that is what all inputs say too; at a threshold of two or three many rows are there by luck.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from slipstream.data.dataset import Part
from slipstream.data.inputs import Array
from slipstream.embedding.spec import Layout
from slipstream.errors import ConfigError
from slipstream.models.inputs import LINEAR
from slipstream.skew.passes import count, no_accesses
from slipstream.skew.popularity import row_bytes
from slipstream.student import t_quantile

CHUNKS, CHUNK_ROWS, CONFIDENCE = 35, 1024, 0.999
_CONSECUTIVE = 512


@dataclass(frozen=True)
class Estimate:
    """How many rows there are of a kind: the likeliest number, and bounds."""

    rows: float
    least: float
    most: float


@dataclass(frozen=True)
class Calibration:
    """What a sample says about a budget.

    Args:
        inputs: Inputs in the sample.
        threshold: Accesses in the sample from which a row is hot.
        popularity: The same as a share of inputs.
        rows: The estimated size of the hot set.
        bytes: Bytes of that many rows.
        most_bytes: The bound of these bytes.
    """

    inputs: int
    threshold: int
    popularity: float
    rows: Estimate
    bytes: float
    most_bytes: float

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)


def calibrate(
    part: Part, layout: Layout, budget: int, *, share: float = 0.05, seed: int = 0
) -> Calibration:
    """The lowest threshold whose hot set fits a budget, by the bound of its size.

    Args:
        part: The training part.
        layout: Tables and features.
        budget: Bytes of fast memory, optimizer state counted.
        share: Of the inputs to count.
        seed: Of the inputs and the rows that are drawn.
    """
    counts, inputs = sampled_counts(part, share, seed)
    tables = [
        (counts[table.name.removesuffix(LINEAR)], size)
        for group, size in zip(layout.groups, row_bytes(layout), strict=True)
        for table in group.tables
    ]
    accesses, sizes = [one for one, _ in tables], [size for _, size in tables]
    drawn = [chunks(one, seed + number) for number, one in enumerate(accesses)]
    low, high = 1, 1 + max(max(int(one.max(initial=0)) for one in some) for some in drawn)
    while low < high:
        middle = (low + high) // 2
        if _size(accesses, drawn, sizes, middle)[2] <= budget:
            high = middle
        else:
            low = middle + 1
    rows, bytes_, most = _size(accesses, drawn, sizes, low)
    if most > budget:
        raise ConfigError(
            f"A sample of {inputs:,} inputs cannot tell which rows fit {budget:,} bytes: the bound "
            f"of the smallest hot set that it sees is {most:,.0f} bytes. Sample more inputs, or "
            "count all of them."
        )
    return Calibration(inputs, low, low / max(1, inputs), rows, bytes_, most)


def sampled_counts(part: Part, share: float, seed: int) -> tuple[dict[str, Array], int]:
    """The accesses of each row in a share of the inputs, and how many inputs that are.

    Inputs are drawn in runs of 512, which read as fast as a file does.
    """
    runs = -(-len(part) // _CONSECUTIVE)
    wanted = min(runs, max(1, round(runs * share))) if runs else 0
    drawn = np.sort(np.random.default_rng(seed).choice(runs, wanted, replace=False))
    counts = no_accesses(part)
    inputs = 0
    for run in drawn.tolist():
        start, stop = run * _CONSECUTIVE, min((run + 1) * _CONSECUTIVE, len(part))
        count(part, start, stop, into=counts)
        inputs += stop - start
    return counts, inputs


def chunks(accesses: Array, seed: int = 0) -> list[Array]:
    """The accesses of 35 chunks of 1,024 rows drawn at random; all of them if there are no more.

    FAE takes consecutive rows. Where ids are popularity ranks, or only nearly so, the hot rows
    would all be in a few chunks: so each row is drawn by itself.
    """
    if len(accesses) <= CHUNKS * CHUNK_ROWS:
        return [accesses]
    random = np.random.default_rng((seed, len(accesses)))
    rows = random.choice(len(accesses), CHUNKS * CHUNK_ROWS, replace=False)
    return [accesses[one] for one in np.split(rows, CHUNKS)]


def estimate(drawn: list[Array], rows: int, threshold: int) -> Estimate:
    """How many of a table's rows have at least so many accesses, from chunks of it.

    A t-interval over the chunks at 99.9 %. With few hot rows in them it is too narrow, and with
    none it has no width: its upper bound is never below that of the binomial law.
    """
    found = np.array([int((one >= threshold).sum()) for one in drawn], dtype=float)
    seen, hot = sum(map(len, drawn)), int(found.sum())
    if seen >= rows:
        return Estimate(hot, hot, hot)
    likely = hot / seen * rows
    error = float(found.std(ddof=1)) / math.sqrt(len(found)) / len(drawn[0]) * rows
    half = t_quantile((1 + CONFIDENCE) / 2, len(found) - 1) * error
    most = max(likely + half, binomial_most(hot, seen, CONFIDENCE) * rows)
    return Estimate(likely, max(float(hot), likely - half), min(float(rows), most))


def binomial_most(hits: int, drawn: int, confidence: float) -> float:
    """The largest share with which so few hits are not yet too unlikely (Clopper and Pearson).

    Example:
        >>> round(binomial_most(0, 1000, 0.999), 5)
        0.00757
    """
    if hits >= drawn:
        return 1.0
    k = np.arange(hits + 1)
    ways = np.array([math.lgamma(n + 1) + math.lgamma(drawn - n + 1) for n in k.tolist()])
    ways = math.lgamma(drawn + 1) - ways
    low, high = hits / drawn, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        chance = np.exp(ways + k * math.log(middle) + (drawn - k) * math.log1p(-middle)).sum()
        low, high = (middle, high) if chance > (1 - confidence) / 2 else (low, middle)
    return high


def _size(
    accesses: list[Array], drawn: list[list[Array]], sizes: list[int], threshold: int
) -> tuple[Estimate, float, float]:
    """The hot set of a threshold: its rows, bytes, and the bound of these."""
    each = [estimate(some, len(one), threshold) for one, some in zip(accesses, drawn, strict=True)]
    rows = Estimate(
        sum(one.rows for one in each), sum(one.least for one in each), sum(one.most for one in each)
    )
    bytes_ = sum(one.rows * size for one, size in zip(each, sizes, strict=True))
    return rows, bytes_, sum(one.most * size for one, size in zip(each, sizes, strict=True))
