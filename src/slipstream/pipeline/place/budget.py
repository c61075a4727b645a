"""How a budget of fast memory is shared out: rows that stay, slots for rows that come and go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from slipstream.arrays import Array
from slipstream.number_format import size_setting
from slipstream.pipeline.place.accesses import Popularity
from slipstream.pipeline.place.tier import TierSize
from slipstream.pipeline.place.working_set import WorkingSet
from slipstream.tables.spec import Layout

AUTO_SHARE = 0.95
"""The share of accesses that the kept rows of an `auto` budget take."""
# Room for batches that need more rows than they do on average. Where it is short, the window is
# shorter for a while, and nothing else; where it is ample, fewer rows are kept.
_SPARE = 1.15


def auto_bytes(popularity: Popularity, largest: Sequence[int]) -> int:
    """The smallest budget whose kept rows take 95 % of accesses, with room for every batch."""
    kept_bytes = popularity.bytes_for(AUTO_SHARE)
    return min(popularity.bytes, kept_bytes + least_bytes(popularity.sizes, largest))


def least_bytes(sizes: Sequence[int], largest: Sequence[int]) -> int:
    """The smallest budget that works: the rows of the largest batch with their optimizer state."""
    return sum(size * max(1, rows) for size, rows in zip(sizes, largest, strict=True))


def too_small_for_all(sizes: Sequence[int], needed: WorkingSet, budget: int) -> str | None:
    """The error for a budget in which no full batch fits; None if a batch fits."""
    if budget >= needed.smallest_bytes:
        return None
    return (
        f"A fast tier of {budget:,} bytes is too small: no batch fits. The one that needs the "
        f"fewest rows needs {needed.smallest_bytes:,} bytes with their optimizer state. Set "
        f"placement.fast_memory to {size_setting(needed.smallest_bytes)} or more, or use smaller "
        f"batches; at {size_setting(least_bytes(sizes, needed.largest))} every batch fits."
    )


def divide_budget(
    layout: Layout,
    counts: Callable[[str], Array],
    inputs: int,
    budget: int,
    *,
    keep: bool,
    batch_size: int,
    window: int,
    needed: WorkingSet | None = None,
    apart: bool = False,
) -> list[TierSize]:
    """Share a budget out: the most accessed rows stay, the other slots serve the window.

    Args:
        layout: Tables and features.
        counts: The accesses of each row of a table in the training part.
        inputs: Inputs of the training part.
        budget: Bytes of the fast tier, optimizer state counted.
        keep: Whether rows stay for good; otherwise all is room for the window.
        batch_size: Inputs of a batch.
        window: Batches to look ahead.
        needed: The most rows that a batch needs: there is room for them, as far as the budget
            goes. A batch that does not fit is trained in the slow tier.
        apart: Whether there are batches without any input whose rows all stay: more rows come for
            these.
    """
    popularity = Popularity.of(layout, counts)
    more = _more_apart(layout, popularity, inputs) if apart and keep else None
    return divide_among(
        popularity,
        inputs,
        budget,
        keep=keep,
        window_inputs=batch_size * window,
        needed=needed,
        more=more,
    )


def divide_among(
    popularity: Popularity,
    inputs: int,
    budget: int,
    *,
    keep: bool,
    window_inputs: int,
    needed: WorkingSet | None = None,
    more: Array | None = None,
) -> list[TierSize]:
    """As `divide_budget`, for rows that are sorted already.

    Args:
        popularity: The rows in order.
        inputs: Inputs of the training part.
        budget: Bytes of the fast tier, optimizer state counted.
        keep: Whether rows stay for good.
        window_inputs: Examples in the window.
        needed: The most rows that a batch needs.
        more: How many times as many rows come as inputs drawn at random need, where the first
            levels stay: for none, one, two and so on up to all levels.
    """
    sizes, rows = popularity.sizes, [len(accesses) for accesses in popularity.accesses]
    needed = needed or WorkingSet([0] * len(sizes))
    if keep:
        return _with_kept(popularity, inputs, budget, window_inputs, needed, more)
    floor = _within(budget, sizes, needed.largest)
    rest = [have - least for have, least in zip(rows, floor, strict=True)]
    left = budget - sum(size * least for size, least in zip(sizes, floor, strict=True))
    share = min(1.0, left / max(1, sum(size * n for size, n in zip(sizes, rest, strict=True))))
    none = np.empty(0, dtype=np.int64)
    slots = [least + int(n * share) for least, n in zip(floor, rest, strict=True)]
    return [TierSize(max(1, count), none) for count in slots]


def _with_kept(
    popularity: Popularity,
    inputs: int,
    budget: int,
    window_inputs: int,
    needed: WorkingSet,
    more: Array | None,
) -> list[TierSize]:
    """Keep as many of the best rows as possible, with slots left for the window and every batch."""
    sizes, rows = popularity.sizes, [len(accesses) for accesses in popularity.accesses]
    levels = popularity.levels
    coming = levels.rows * _chance(levels.accesses, inputs, window_inputs)
    # In bytes, after each level: rows kept, room for the window, and room for the largest batch.
    kept_bytes, window, batch = (np.zeros(len(levels.rows) + 1) for _ in range(3))
    left, beyond = [], []
    for number, size in enumerate(sizes):
        in_group = levels.group == number
        keep = np.concatenate([[0], np.cumsum(np.where(in_group, levels.rows, 0))])
        expected = np.concatenate([[0], np.cumsum(np.where(in_group, coming, 0.0))])
        left.append(np.maximum(expected[-1] - expected, 0.0))
        if more is not None:
            left[number] = np.minimum(more * left[number], rows[number] - keep)
        kept_bytes += size * keep
        # The number of rows that come varies by less than the root of what is expected.
        window += size * (_SPARE * left[number] + 6 * np.sqrt(left[number]))
        beyond.append(np.minimum(needed.largest[number], rows[number] - keep))
        batch += size * beyond[number]
    # A window that takes more than half is better cut short: what is kept saves more.
    total_bytes = kept_bytes + np.maximum(np.minimum(window, budget / 2), batch)
    (fits,) = np.nonzero(total_bytes <= budget)
    best = int(fits[-1]) if len(fits) else 0
    kept_rows = [np.flatnonzero(mask) for mask in popularity.first(best)]
    need = _within(budget, sizes, [int(by_levels[best]) for by_levels in beyond])
    spent = sum(
        size * (len(keep) + least) for size, keep, least in zip(sizes, kept_rows, need, strict=True)
    )
    wanted = [size * float(by_levels[best]) for size, by_levels in zip(sizes, left, strict=True)]
    tier_sizes = []
    for number, keep in enumerate(kept_rows):
        share = wanted[number] / sum(wanted) if sum(wanted) else 1 / len(sizes)
        slots = len(keep) + need[number] + int(max(0, budget - spent) * share) // sizes[number]
        tier_sizes.append(TierSize(min(max(slots, 1), rows[number]), keep))
    return tier_sizes


def rows_beside(
    popularity: Popularity, tier_sizes: Sequence[TierSize], inputs: int, inputs_drawn: int
) -> list[float]:
    """For each group, the expected number of rows that examples touch and that do not stay."""
    levels = popularity.levels
    coming = levels.rows * _chance(levels.accesses, inputs, inputs_drawn)
    row_counts = []
    for number, (tier_size, accesses) in enumerate(
        zip(tier_sizes, popularity.accesses, strict=True)
    ):
        stay = _chance(accesses[tier_size.keep], inputs, inputs_drawn).sum()
        row_counts.append(max(0.0, float(coming[levels.group == number].sum() - stay)))
    return row_counts


def lookups_beside(
    popularity: Popularity, tier_sizes: Sequence[TierSize], inputs: int, inputs_drawn: int
) -> list[float]:
    """For each group, the expected number of lookups of these rows."""
    lookups, levels = [], popularity.levels
    accesses_of_levels = levels.accesses * levels.rows
    for number, tier_size in enumerate(tier_sizes):
        total = accesses_of_levels[levels.group == number].sum()
        of_kept_rows = popularity.accesses[number][tier_size.keep].sum()
        lookups.append(float(total - of_kept_rows) * inputs_drawn / max(1, inputs))
    return lookups


def _within(budget: int, sizes: Sequence[int], largest: Sequence[int]) -> list[int]:
    """The largest number of rows of each group, or as large a share of it as a budget holds."""
    share = min(1.0, budget / least_bytes(sizes, largest))
    return [int(rows * share) for rows in largest]


def _more_apart(layout: Layout, popularity: Popularity, inputs: int) -> Array:
    """How many times as many rows come for examples of which each has a row that does not stay.

    There are at least as many such inputs as the table with the most such accesses has of these,
    where its column has one id an input; and k times as many inputs need at most k times as many
    rows.
    """
    levels = len(popularity.levels.rows)
    cold = np.zeros(levels + 1)
    pairs = zip(layout.groups, popularity.accesses, popularity.level_of(), strict=True)
    for group, accesses, level_of in pairs:
        for first, last in pairwise(group.starts):
            cold_accesses = np.bincount(
                level_of[first:last], accesses[first:last], minlength=levels
            )
            beyond = np.concatenate([np.cumsum(cold_accesses[::-1])[::-1], [0.0]])
            cold = np.maximum(cold, beyond)
    return np.asarray(inputs / np.clip(cold, 1, max(1, inputs)))


def _chance(accesses: Array, inputs: int, inputs_drawn: int) -> Array:
    """The probability that some of `inputs_drawn` examples touch a row with so many accesses."""
    chance = np.minimum(accesses / max(1, inputs), 1 - 1e-9)
    return np.asarray(-np.expm1(inputs_drawn * np.log1p(-chance)))
