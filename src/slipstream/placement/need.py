"""How many rows the largest batch needs: the least that a fast tier must hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from slipstream.data.batch import Batch
from slipstream.embedding.spec import Layout
from slipstream.placement.resident import Resident


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


def largest_batch(layout: Layout, singles: Sequence[str], batches: Iterable[Batch]) -> list[int]:
    """For each group the most distinct rows that any of these batches needs."""
    resident = Resident(layout, singles)
    most = [0] * len(layout.groups)
    for batch in batches:
        for number, plan in enumerate(resident.plan(batch.ids, batch.lists, batch.n_valid)):
            assert plan.touched is not None, "it was planned as if it were trained"
            most[number] = max(most[number], len(plan.touched.rows))
    return most
