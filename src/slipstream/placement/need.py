"""How many rows the largest batch needs: the least that a fast tier must hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slipstream.compiled import compiled
from slipstream.data.batch import Batch
from slipstream.data.inputs import Array
from slipstream.embedding.spec import Layout
from slipstream.embedding.store import in_memory
from slipstream.prefetch import AHEAD, prefetch
from slipstream.skew.popularity import Popularity

_SEEN, _BLOCK = 0, 1


def at_most(layout: Layout, batch_size: int, longest: Mapping[str, int]) -> list[int]:
    """For each group as many rows as a batch can need at most, without looking at the data.

    Args:
        layout: Tables and features.
        batch_size: Inputs of a batch.
        longest: The length of the longest list of each list column.
    """
    bounds = []
    for group in layout.groups:
        features = [layout.features[number] for number in (*group.features, *group.sequences)]
        needed = 0
        for table in group.tables:
            mine = [one.column for one in features if one.table == table.name]
            ids = sum(longest.get(column, 1) for column in mine)
            needed += min(table.rows, ids * batch_size)
        bounds.append(needed)
    return bounds


@dataclass(frozen=True)
class Needed:
    """The most distinct rows that a batch needs.

    Args:
        largest: For each group.
        beyond: For each group, where the first blocks of a `Popularity` are kept, the most rows
            beyond them that a batch needs: for none, one, two and so on up to all blocks. None
            where batches were not looked at.
        fewest: Bytes of the rows of the full batch that needs the least; 0 where batches were not
            looked at.
    """

    largest: list[int]
    beyond: list[Array] | None = None
    fewest: int = 0


class Need:
    """Looks at batches, and keeps count of what `Needed` says.

    Args:
        layout: Tables and features.
        singles: The names of the columns in the block of single ids, in order.
        popularity: The order in which rows would be kept.
    """

    def __init__(self, layout: Layout, singles: Sequence[str], popularity: Popularity) -> None:
        blocks = len(popularity.blocks.rows)
        # Of each row the last batch that needed it beside its block: both are looked at.
        self._known = [in_memory((group.rows, 2)) for group in layout.groups]
        for known, block_of in zip(self._known, popularity.block_of(), strict=True):
            known[:, _SEEN], known[:, _BLOCK] = -1, block_of
        self._beyond = [np.zeros(blocks + 1, dtype=np.int64) for _ in layout.groups]
        self._by_block = np.zeros(blocks, dtype=np.int64)
        self._batches = 0
        self._sizes, self._fewest = popularity.sizes, (1, 0)
        self._singles: list[list[tuple[int, int, int]]] = []
        self._lists: list[list[tuple[str, int, int]]] = []
        for group in layout.groups:
            features = [layout.features[number] for number in (*group.features, *group.sequences)]
            rows = {table.name: table.rows for table in group.tables}
            where = [(f, group.start(f.table), rows[f.table]) for f in features]
            self._singles.append(
                [(singles.index(f.column), at, n) for f, at, n in where if f.kind == "single"]
            )
            self._lists.append([(f.column, at, n) for f, at, n in where if f.kind != "single"])

    def add(self, batch: Batch) -> None:
        """Look at one more batch; ids that are no row of their table are left to training."""
        ids = batch.ids[: batch.n_valid].numpy()
        needed = 0
        for number, known in enumerate(self._known):
            mine = (known, self._batches, self._by_block)
            for place, start, rows in self._singles[number]:
                _count_new(ids[:, place], start, rows, *mine)
            for column, start, rows in self._lists[number]:
                _count_new(batch.lists[column].values.numpy(), start, rows, *mine)
            needed += self._sizes[number] * _raise_to(self._by_block, self._beyond[number])
        this = (int(batch.n_valid < batch.capacity), needed)  # a full one before any other
        self._fewest = min(self._fewest, this) if self._batches else this
        self._batches += 1

    @property
    def needed(self) -> Needed:
        """What the batches so far need."""
        return Needed([int(one[0]) for one in self._beyond], self._beyond, self._fewest[1])


def needed_by(
    layout: Layout, singles: Sequence[str], popularity: Popularity, batches: Iterable[Batch]
) -> Needed:
    """The most distinct rows that any of these batches needs."""
    need = Need(layout, singles, popularity)
    for batch in batches:
        need.add(batch)
    return need.needed


@compiled
def _count_new(
    ids: Array, start: int, rows: int, known: Array, batch: int, by_block: Array
) -> None:
    """Count, by their block, the rows that this batch had not needed before."""
    for k in range(-AHEAD, len(ids)):
        if k + AHEAD < len(ids) and 0 <= ids[k + AHEAD] < rows:
            prefetch(known, start + ids[k + AHEAD], 0)
        if k >= 0 and 0 <= ids[k] < rows and known[start + ids[k], _SEEN] != batch:
            known[start + ids[k], _SEEN] = batch
            by_block[known[start + ids[k], _BLOCK]] += 1


@compiled
def _raise_to(by_block: Array, beyond: Array) -> int:
    """Raise the most rows beyond each block to those of a batch, and forget it; all its rows."""
    rows = 0
    for back in range(len(by_block)):
        block = len(by_block) - 1 - back
        rows += by_block[block]
        by_block[block] = 0
        beyond[block] = max(beyond[block], rows)
    return rows
