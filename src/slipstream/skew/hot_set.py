"""The hot set: the rows that a budget of fast memory is best spent on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.data.inputs import Array
from slipstream.embedding.spec import Layout
from slipstream.skew.popularity import Popularity, accesses_of, row_bytes

SMALL = 1 << 20  # bytes of a table up to which it is kept whole


@dataclass(frozen=True)
class HotSet:
    """Rows to keep in fast memory.

    Args:
        hot: For each group of the layout whether a row is hot.
        whole: The tables that are hot as a whole because they are small.
        budget: The bytes that were given.
        bytes: Those that the rows take, optimizer state counted.
        access_share: The share of accesses that they take.
    """

    hot: list[Array]
    whole: tuple[str, ...]
    budget: int
    bytes: int
    access_share: float

    @property
    def rows(self) -> int:
        """How many rows are hot."""
        return sum(int(one.sum()) for one in self.hot)

    def to_json(self) -> dict[str, Any]:
        """What it comes to, without the rows."""
        return {
            "budget_bytes": self.budget,
            "bytes": self.bytes,
            "rows": self.rows,
            "access_share": self.access_share,
            "tables_whole": list(self.whole),
        }


def hot_set(layout: Layout, counts: Callable[[str], Array], budget: int) -> HotSet:
    """The hot set for a budget: small tables whole, then the most accessed rows of all others.

    Tables of at most 1 MiB are kept whole, the smallest first, as long as they take no more than
    half of the budget; the rest goes to the rows with most accesses a byte, whatever their table.

    Args:
        layout: Tables and features.
        counts: The accesses of each row of a table in the training part.
        budget: Bytes of fast memory, optimizer state counted.
    """
    sizes = row_bytes(layout)
    accesses = accesses_of(layout, counts)
    tables = [
        (table.rows * sizes[number], number, start, table)
        for number, group in enumerate(layout.groups)
        for start, table in zip(group.starts[:-1], group.tables, strict=True)
    ]
    rest, whole, spent = [one.astype(np.int64) for one in accesses], [], 0
    for bytes_, number, start, table in sorted(tables, key=lambda one: one[0]):
        if bytes_ > SMALL or spent + bytes_ > budget / 2:
            break
        spent += bytes_
        whole.append(table.name)
        rest[number][start : start + table.rows] = -1
    hot = Popularity(rest, sizes).hot(budget - spent) if spent < budget else []
    hot = [mask | (one < 0) for mask, one in zip(hot, rest, strict=True)] if hot else hot
    hot = hot or [np.zeros(len(one), bool) for one in rest]
    taken = sum(int(one[mask].sum()) for one, mask in zip(accesses, hot, strict=True))
    total = sum(int(one.sum()) for one in accesses)
    used = sum(int(mask.sum()) * size for mask, size in zip(hot, sizes, strict=True))
    names = tuple(table.name for table in layout.tables if table.name in whole)
    return HotSet(hot, names, budget, used, taken / total if total else 0.0)
