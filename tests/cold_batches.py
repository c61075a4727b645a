"""Batches with many rows that are not kept, drawn by Hypothesis or by a generator."""

import numpy as np
import torch
from hypothesis import strategies as st

from slipstream.data.batch import Batch, ReadBlock
from slipstream.pipeline.place.tier import TierSize
from slipstream.tables.spec import Feature, Layout, TableSpec


def layout_of(rows, dims=(2,)):
    """A table for each number of rows; those of one dimension are a group."""
    tables = tuple(TableSpec(f"t{n}", size, dims[n % len(dims)]) for n, size in enumerate(rows))
    return Layout(tables, tuple(Feature(f"c{n}", f"t{n}") for n in range(len(rows))))


def batches_of(rows, sizes, capacity, draw, at_once=1):
    """Batches, of which some were read at once: those lie side by side."""
    batches, position = [], 0
    whole = np.zeros((len(sizes), capacity, len(rows)), dtype=np.int32)
    for number, n in enumerate(sizes):
        ids = whole[number]
        first = number // at_once * at_once
        some = sizes[first : first + at_once]
        block = torch.from_numpy(whole[first : first + at_once])
        inputs = torch.arange(block.shape[0] * capacity).view(-1, capacity)
        together = ReadBlock({"ids": block, "example_numbers": inputs}, sum(some), len(some))
        for column, size in enumerate(rows):
            skewed = draw.random(n) ** 4 * size
            ids[:n, column] = skewed.astype(np.int32)
        numbers = torch.arange(position, position + capacity)
        position += n
        zeros = torch.zeros(capacity)
        batches.append(
            Batch(
                numbers,
                zeros,
                zeros,
                zeros[:, None],
                torch.from_numpy(ids),
                n,
                position,
                read_block=together if len(some) > 1 else None,
                place=number - first,
            )
        )
    return batches


def prefixes(layout, shares, number=0):
    group = layout.groups[number]
    pieces = [
        np.arange(start, start + int(table.rows * share))
        for table, start, share in zip(group.tables, group.starts, shares, strict=False)
    ]
    return np.concatenate(pieces)


def tiers_and_batches(data, count):
    """Batches, and rooms with little room beside the rows that stay, all drawn by Hypothesis."""
    draw = np.random.default_rng(data.draw(st.integers(0, 999)))
    rows = data.draw(st.lists(st.integers(1, 40), min_size=2, max_size=6))
    layout = layout_of(rows, data.draw(st.sampled_from([(2,), (2, 4)])))
    capacity, at_once = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 8))
    read = data.draw(st.sampled_from([1, at_once]))
    sizes = [1 + step * capacity // (count + 1) for step in range(count)]  # ever larger
    if read > 1:
        sizes = [capacity] * count
    batches = batches_of(rows, sizes, capacity, draw, read)
    tier_sizes = []
    for number in range(len(layout.groups)):
        keep = prefixes(layout, draw.random(len(rows)) / 2, number)
        tier_sizes.append(TierSize(len(keep) + data.draw(st.integers(1, 60)), keep))
    return layout, [f"c{n}" for n in range(len(rows))], tier_sizes, batches, at_once


def contents(placed):
    """All that a plan says, to be compared."""
    groups = [[array.tolist() for array in plan[:6]] + [plan.at] for plan in placed.groups]
    return placed.batch.next_position, groups, placed.after, placed.oversized_batch
