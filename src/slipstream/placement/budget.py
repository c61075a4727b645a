"""How much of each table the fast tier holds: rows that stay, and room for those that come."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

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
    apart: bool = False,
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
        apart: Whether there are batches without any input whose rows all stay.
    """
    sizes = row_bytes(layout)
    if not keep:
        whole = sum(size * group.rows for size, group in zip(sizes, layout.groups, strict=True))
        share = min(1.0, budget / whole)
        none = np.empty(0, dtype=np.int64)
        return [Room(max(1, int(group.rows * share)), none) for group in layout.groups]
    accesses = [accesses_of(layout, number, counts) for number in range(len(layout.groups))]
    starts = [group.starts for group in layout.groups] if apart else None
    coming = partial(_coming, accesses, sizes, inputs, batch_size * window, starts)
    lowest = _lowest_kept(accesses, sizes, budget, coming)
    stays = [one >= lowest * size for one, size in zip(accesses, sizes, strict=True)]
    room = coming(stays)
    left = budget - sum(int(kept.sum()) * size for kept, size in zip(stays, sizes, strict=True))
    made = []
    for number, group in enumerate(layout.groups):
        (rows,) = np.nonzero(stays[number])
        share = room[number] / sum(room) if sum(room) else 1 / len(sizes)
        slots = len(rows) + int(left * share) // sizes[number]
        made.append(Room(min(max(slots, 1), group.rows), rows))
    return made


def accesses_of(layout: Layout, number: int, counts: Callable[[str], Array]) -> Array:
    """The accesses of each row of a group in the training part."""
    tables = layout.groups[number].tables
    return np.concatenate([counts(table.name.removesuffix(LINEAR)) for table in tables])


def _expected(accesses: Array, inputs: int, drawn: float) -> float:
    """How many of these rows so many inputs are expected to touch."""
    chance = np.minimum(accesses / max(1, inputs), 1.0)
    return float(-np.expm1(drawn * np.log1p(-np.minimum(chance, 1 - 1e-9))).sum())


def _coming(
    accesses: Sequence[Array],
    sizes: Sequence[int],
    inputs: int,
    drawn: int,
    starts: Sequence[Sequence[int]] | None,
    stays: Sequence[Array],
) -> list[float]:
    """The bytes of each group that so many inputs need beside the rows that stay.

    With `starts`, where the tables of each group begin, for inputs with a row that does not stay:
    there are at least as many of these as the column with the most such rows has.
    """
    chosen = float(drawn)
    if starts is not None:
        cold = [
            int(one[first:last][~kept[first:last]].sum())
            for one, kept, tables in zip(accesses, stays, starts, strict=True)
            for first, last in pairwise(tables)
        ]
        chosen = drawn * inputs / min(max(1, *cold), max(1, inputs))
    return [
        size * _expected(one[~kept], inputs, chosen)
        for one, size, kept in zip(accesses, sizes, stays, strict=True)
    ]


def _lowest_kept(
    accesses: Sequence[Array],
    sizes: Sequence[int],
    budget: int,
    coming: Callable[[Sequence[Array]], list[float]],
) -> float:
    """The fewest accesses a byte with which a row stays, such that all fits the budget."""
    worth = np.concatenate([one / size for one, size in zip(accesses, sizes, strict=True)])
    steps = np.unique(worth)
    low, high = 0, len(steps)  # at `high` nothing is kept
    while low < high:
        middle = (low + high) // 2
        stays = [one >= steps[middle] * size for one, size in zip(accesses, sizes, strict=True)]
        kept = sum(size * int(some.sum()) for some, size in zip(stays, sizes, strict=True))
        if kept + _SPARE * sum(coming(stays)) <= budget:
            high = middle
        else:
            low = middle + 1
    return float(steps[low]) if low < len(steps) else float("inf")
