"""How many rows one batch needs: the least that a fast tier must hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from slipstream.arrays import Array
from slipstream.compiled import compiled
from slipstream.data.batch import Batch
from slipstream.data.dataset import Dataset
from slipstream.data.loader import Loader
from slipstream.order import InputOrder
from slipstream.tables.sizes import row_bytes
from slipstream.tables.spec import Layout


@dataclass(frozen=True)
class WorkingSet:
    """The distinct rows that batches need.

    Args:
        largest: For each group of tables, the most rows that one batch needs.
        smallest_bytes: Bytes of the rows of the full batch that needs the least; 0 if the batches
            were not read.
    """

    largest: list[int]
    smallest_bytes: int = 0


_KNOWN: WeakKeyDictionary[Dataset, dict[tuple[Layout, int, InputOrder], WorkingSet]] = (
    WeakKeyDictionary()
)


def working_set_bound(layout: Layout, batch_size: int, longest: Mapping[str, int]) -> WorkingSet:
    """An upper bound, without reading any data."""
    bounds = []
    for group in layout.groups:
        features = [layout.features[number] for number in (*group.features, *group.sequences)]
        ids = {
            table.name: sum(longest.get(f.column, 1) for f in features if f.table == table.name)
            for table in group.tables
        }
        bounds.append(sum(min(t.rows, ids[t.name] * batch_size) for t in group.tables))
    return WorkingSet(bounds)


def working_set_of(
    layout: Layout, dataset: Dataset, batch_size: int, order: InputOrder
) -> WorkingSet:
    """The working set of all batches of a training; reads them once for each data set."""
    known, key = _KNOWN.setdefault(dataset, {}), (layout, batch_size, order)
    if key not in known:
        singles = [column.name for column in dataset.schema.singles]
        with Loader(dataset.train, batch_size, order=order) as loader:
            known[key] = count_working_set(layout, singles, loader)
    return known[key]


def count_working_set(
    layout: Layout, singles: Sequence[str], batches: Iterable[Batch]
) -> WorkingSet:
    """The working set of these batches.

    Args:
        layout: Tables and features.
        singles: Names of the single-id columns, in the order of the ids of a batch.
        batches: At least one batch. Ids that their table does not have are ignored.
    """
    # Of each row, the last batch that needed it.
    last_batch = [np.full(group.rows, -1, dtype=np.int32) for group in layout.groups]
    largest, sizes = [0] * len(layout.groups), row_bytes(layout)
    full: list[int] = []
    partial: list[int] = []
    for number, batch in enumerate(batches):
        ids = batch.ids[: batch.n_valid].numpy()
        rows = [0] * len(layout.groups)
        for place, group in enumerate(layout.groups):
            for feature in (layout.features[n] for n in (*group.features, *group.sequences)):
                if feature.kind == "single":
                    column = ids[:, singles.index(feature.column)]
                else:
                    column = batch.lists[feature.column].values.numpy()
                start = group.start(feature.table)
                table = last_batch[place][start : start + layout.table(feature.table).rows]
                rows[place] += _count_new(column, table, number)
        largest = [max(pair) for pair in zip(largest, rows, strict=True)]
        bytes_ = sum(size * count for size, count in zip(sizes, rows, strict=True))
        (full if batch.n_valid == batch.capacity else partial).append(bytes_)
    return WorkingSet(largest, min(full or partial, default=0))


@compiled
def _count_new(ids: Array, last_batch: Array, batch: int) -> int:
    """Count the rows that this batch had not needed before, and mark them."""
    new = 0
    for row in ids:
        if 0 <= row < len(last_batch) and last_batch[row] != batch:
            last_batch[row] = batch
            new += 1
    return new
