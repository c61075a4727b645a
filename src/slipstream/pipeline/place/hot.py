"""Which examples are hot: all of their rows are kept in the fast tier."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from slipstream.arrays import Array
from slipstream.data.dataset import Part
from slipstream.data.gather import Gather
from slipstream.data.layout import fixed_fields
from slipstream.tables.spec import Layout


class HotInputs:
    """Tests whether examples of a part are hot."""

    def __init__(self, part: Part, layout: Layout, kept_rows: Sequence[Array]) -> None:
        self._part = part
        singles = [column.name for column in part.schema.singles]
        self._singles: list[tuple[int, Array]] = []
        self._lists: list[tuple[str, Array]] = []
        hashed = hashlib.sha256()
        for group, rows in zip(layout.groups, kept_rows, strict=True):
            hashed.update(np.ascontiguousarray(rows, dtype=np.int64).tobytes() + b"/")
            is_kept = np.zeros(group.rows, dtype=bool)
            is_kept[rows] = True
            for number in (*group.features, *group.sequences):
                feature = layout.features[number]
                start = group.start(feature.table)
                is_kept_row = is_kept[start : start + layout.table(feature.table).rows]
                if feature.kind == "single":
                    self._singles.append((singles.index(feature.column), is_kept_row))
                else:
                    self._lists.append((feature.column, is_kept_row))
        self.digest = hashed.hexdigest()

    def __call__(self, numbers: Array) -> Array:
        """Whether each example of these numbers is hot; an example without any row is hot."""
        gather = Gather.of(self._part, numbers)
        field = fixed_fields(self._part.schema)["ids"]
        ids = np.empty((len(numbers), *field.shape), dtype=field.dtype)
        gather.fixed("ids", ids)
        hot = np.ones(len(numbers), dtype=bool)
        for column, kept_rows in self._singles:
            hot &= kept_rows[ids[:, column]]
        for name, kept_rows in self._lists:
            ragged = gather.lists(name)
            cold = np.concatenate([[0], np.cumsum(~kept_rows[ragged.values])])
            hot &= np.diff(cold[ragged.offsets]) == 0
        return hot
