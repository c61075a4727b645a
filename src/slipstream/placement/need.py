"""How many rows the largest batch needs: the least that a fast tier must hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from slipstream.compiled import compiled
from slipstream.data.batch import Batch
from slipstream.data.inputs import Array
from slipstream.embedding.spec import Layout


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


class Need:
    """Keeps count of the most distinct rows that a batch needs, for each group.

    Args:
        layout: Tables and features.
        singles: The names of the columns in the block of single ids, in order.
    """

    def __init__(self, layout: Layout, singles: Sequence[str]) -> None:
        self.largest = [0] * len(layout.groups)
        self._seen = [np.full(group.rows, -1, dtype=np.int32) for group in layout.groups]
        self._batches = 0
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
        for number, seen in enumerate(self._seen):
            found = 0
            for place, start, rows in self._singles[number]:
                found += _new(ids[:, place], start, rows, seen, self._batches)
            for column, start, rows in self._lists[number]:
                values = batch.lists[column].values.numpy()
                found += _new(values, start, rows, seen, self._batches)
            self.largest[number] = max(self.largest[number], found)
        self._batches += 1


def largest_batch(layout: Layout, singles: Sequence[str], batches: Iterable[Batch]) -> list[int]:
    """For each group the most distinct rows that any of these batches needs."""
    need = Need(layout, singles)
    for batch in batches:
        need.add(batch)
    return need.largest


@compiled
def _new(ids: Array, start: int, rows: int, seen: Array, batch: int) -> int:
    """How many rows this batch had not needed before; notes them."""
    new = 0
    for k in range(len(ids)):
        if 0 <= ids[k] < rows and seen[start + ids[k]] != batch:
            seen[start + ids[k]] = batch
            new += 1
    return new
