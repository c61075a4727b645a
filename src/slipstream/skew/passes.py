"""Passes over the ids of a part: accesses of each row, and the inputs whose rows are all hot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from slipstream.compiled import compiled
from slipstream.data.dataset import Part
from slipstream.data.inputs import Array, Inputs
from slipstream.embedding.spec import Layout
from slipstream.models.inputs import LINEAR

_AT_ONCE = 1 << 15
Told = Callable[[float], None]


def count(
    part: Part,
    start: int,
    stop: int,
    *,
    every: int = 1,
    into: dict[str, Array] | None = None,
    progress: Told = lambda _: None,
) -> dict[str, Array]:
    """The accesses of each row of each table in some inputs of a part.

    Args:
        part: Where the inputs are.
        start: The first of them.
        stop: The end of them.
        every: Take one input of so many, from the first on.
        into: Counts to add to, instead of new ones.
        progress: Told how many inputs were gone through.
    """
    counts = no_accesses(part) if into is None else into
    skip = 0
    for run in _runs(part, start, stop):
        for place, column in enumerate(part.schema.singles):
            _count_singles(run.ids, place, skip, every, counts[column.table])
        for column in part.schema.lists:
            ragged = run.lists[column.name]
            _count_lists(ragged.values, ragged.offsets, skip, every, counts[column.table])
        skip = (skip - len(run)) % every
        progress(len(run))
    return counts


def no_accesses(part: Part) -> dict[str, Array]:
    """A count for each row of each table, all 0."""
    return {table.name: np.zeros(table.rows, dtype=np.int64) for table in part.schema.tables}


def all_hot(
    part: Part,
    layout: Layout,
    hot_sets: Sequence[Callable[[], Sequence[Array]]],
    progress: Told = lambda _: None,
) -> list[int]:
    """For each of up to 16 hot sets the inputs of a part all of whose rows are in it.

    Args:
        part: Where the inputs are.
        layout: The tables that the hot sets are of.
        hot_sets: Each makes, for each group, whether a row is hot; made one at a time.
        progress: Told how many inputs were gone through.
    """
    assert len(hot_sets) <= 16, "a bit for each hot set"
    bits = {table.name: np.zeros(table.rows, dtype=np.uint16) for table in part.schema.tables}
    for number, make in enumerate(hot_sets):
        hot = {table.name: np.ones(table.rows, dtype=bool) for table in part.schema.tables}
        for group, mask in zip(layout.groups, make(), strict=True):
            for first, table in zip(group.starts[:-1], group.tables, strict=True):
                hot[table.name.removesuffix(LINEAR)] &= mask[first : first + table.rows]
        for name, mask in hot.items():
            bits[name] |= mask.astype(np.uint16) << np.uint16(number)
    found = np.zeros(16, dtype=np.int64)
    for run in _runs(part, 0, len(part)):
        left = np.full(len(run), 0xFFFF, dtype=np.uint16)
        for place, column in enumerate(part.schema.singles):
            _and_singles(run.ids, place, bits[column.table], left)
        for column in part.schema.lists:
            ragged = run.lists[column.name]
            _and_lists(ragged.values, ragged.offsets, bits[column.table], left)
        _add_bits(left, found)
        progress(len(run))
    return [int(n) for n in found[: len(hot_sets)]]


def _runs(part: Part, start: int, stop: int) -> Iterator[Inputs]:
    for first in range(start, stop, _AT_ONCE):
        yield from part.runs(first, min(first + _AT_ONCE, stop))


@compiled
def _count_singles(ids: Array, place: int, skip: int, every: int, counts: Array) -> None:
    for i in range(skip, len(ids), every):
        counts[ids[i, place]] += 1


@compiled
def _count_lists(values: Array, offsets: Array, skip: int, every: int, counts: Array) -> None:
    for i in range(skip, len(offsets) - 1, every):
        for k in range(offsets[i], offsets[i + 1]):
            counts[values[k]] += 1


@compiled
def _and_singles(ids: Array, place: int, bits: Array, left: Array) -> None:
    for i in range(len(ids)):
        left[i] &= bits[ids[i, place]]


@compiled
def _and_lists(values: Array, offsets: Array, bits: Array, left: Array) -> None:
    for i in range(len(offsets) - 1):
        for k in range(offsets[i], offsets[i + 1]):
            left[i] &= bits[values[k]]


@compiled
def _add_bits(left: Array, found: Array) -> None:
    for i in range(len(left)):
        for bit in range(len(found)):
            found[bit] += (left[i] >> bit) & 1
