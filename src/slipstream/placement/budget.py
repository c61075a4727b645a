"""How much of each table the fast tier holds: rows that stay, and room for those that come."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from slipstream.data.inputs import Array
from slipstream.embedding.spec import Layout
from slipstream.embedding.store import Record
from slipstream.errors import ConfigError
from slipstream.models.inputs import LINEAR
from slipstream.placement.tiered import Room

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SPARE = 1.3  # room for batches that need more rows than they do on average


def budget_bytes(text: str, layout: Layout) -> int:
    """The bytes that a budget stands for, such as `256MiB` or `5%` of all rows with their state."""
    whole = sum(row_bytes(layout)[n] * group.rows for n, group in enumerate(layout.groups))
    plain = text.strip().lower()
    share = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*%", plain)
    if share:
        return round(whole * float(share[1]) / 100)
    size = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(?:i?b)?", plain)
    if not size:
        raise ConfigError(
            f"placement.fast_memory is {text!r}; write a size such as 256MiB or a share such as 5%."
        )
    return round(float(size[1]) * _UNITS[size[2]])


def row_bytes(layout: Layout) -> list[int]:
    """Bytes of a row of each group, optimizer state counted."""
    return [4 * Record.of(group).words for group in layout.groups]


def rooms(
    layout: Layout,
    counts: Callable[[str], Array],
    inputs: int,
    budget: int,
    *,
    keep: bool,
    batch_size: int,
    window: int,
) -> list[Room]:
    """Share a budget out: the most accessed rows stay, the rest is room for the window.

    Args:
        layout: Tables and features.
        counts: The accesses of each row of a table in the training part.
        inputs: Inputs of the training part.
        budget: Bytes of the fast tier, optimizer state counted.
        keep: Whether rows stay for good; otherwise all is room for the window.
        batch_size: Inputs of a batch.
        window: Batches to look ahead.
    """
    sizes = row_bytes(layout)
    if not keep:
        whole = sum(size * group.rows for size, group in zip(sizes, layout.groups, strict=True))
        share = min(1.0, budget / max(1, whole))
        none = np.empty(0, dtype=np.int64)
        return [Room(max(1, int(group.rows * share)), none) for group in layout.groups]
    accesses = [_accesses(layout, number, counts) for number in range(len(layout.groups))]
    alike = [np.unique(one, return_counts=True) for one in accesses]
    drawn = batch_size * window
    lowest = _lowest_kept(alike, sizes, inputs, budget, drawn)
    stays = [one >= lowest * size for one, size in zip(accesses, sizes, strict=True)]
    coming = [
        size * _room(*_others(values, many, lowest * size), inputs, drawn)
        for (values, many), size in zip(alike, sizes, strict=True)
    ]
    left = budget - sum(int(kept.sum()) * size for kept, size in zip(stays, sizes, strict=True))
    made = []
    for number, group in enumerate(layout.groups):
        (rows,) = np.nonzero(stays[number])
        share = coming[number] / sum(coming) if sum(coming) else 1 / len(sizes)
        slots = len(rows) + int(left * share) // sizes[number]
        made.append(Room(min(max(slots, 1), group.rows), rows))
    return made


def _accesses(layout: Layout, number: int, counts: Callable[[str], Array]) -> Array:
    tables = layout.groups[number].tables
    return np.concatenate([counts(table.name.removesuffix(LINEAR)) for table in tables])


def _others(values: Array, many: Array, lowest: float) -> tuple[Array, Array]:
    """The rows with fewer accesses than that: the numbers of accesses, and how many have each."""
    return values[values < lowest], many[values < lowest]


def _room(values: Array, many: Array, inputs: int, drawn: int) -> float:
    """Room for the rows that so many inputs touch, also when they are more than expected.

    Args:
        values: Numbers of accesses in the training part.
        many: How many rows have each.
        inputs: Inputs of the training part.
        drawn: Inputs of a window.
    """
    chance = np.minimum(values / max(1, inputs), 1 - 1e-9)
    expected = float((many * -np.expm1(drawn * np.log1p(-chance))).sum())
    # The number varies by less than the root of what is expected.
    return min(float(many[values > 0].sum()), _SPARE * expected + 6 * expected**0.5)


def _lowest_kept(
    alike: Sequence[tuple[Array, Array]],
    sizes: Sequence[int],
    inputs: int,
    budget: int,
    drawn: int,
) -> float:
    """The fewest accesses a byte with which a row stays, such that all fits the budget."""
    pairs = list(zip(alike, sizes, strict=True))
    steps = np.unique(np.concatenate([values / size for (values, _), size in pairs]))
    low, high = 0, len(steps)  # at `high` nothing is kept
    while low < high:
        middle = (low + high) // 2
        taken = 0.0
        for (values, many), size in pairs:
            lowest = steps[middle] * size
            kept = int(many[values >= lowest].sum())
            taken += size * (kept + _room(*_others(values, many, lowest), inputs, drawn))
        if taken <= budget:
            high = middle
        else:
            low = middle + 1
    return float(steps[low]) if low < len(steps) else float("inf")
