"""How far rows have moved: a copy of some of them, compared with what they are later."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from slipstream.data.inputs import Array
from slipstream.skipping import kernels
from slipstream.skipping.context import Context

_AT_ONCE = 1 << 14  # rows at a time: they stay in a near cache


class Snapshot:
    """A copy of some rows, in every table of the model that has them.

    Args:
        context: The run.
        rows: Which rows, numbered through all tables of the data set; rising.
    """

    def __init__(self, context: Context, rows: Array) -> None:
        self.rows = rows
        self._context = context
        self._places = context.places(rows)
        self._copies: list[Array] | None = None

    @property
    def taken(self) -> bool:
        """Whether there is one."""
        return self._copies is not None

    @property
    def bytes(self) -> int:
        """Memory of the copy."""
        return sum(one.nbytes for one in self._copies or ())

    def take(self) -> None:
        """Copy the rows as they are now."""
        self._context.tables.settle()
        if self._copies is None:
            dims = [self._context.tables.stores[group].group.dim for group, _, _ in self._places]
            pairs = zip(self._places, dims, strict=True)
            self._copies = [
                np.empty((len(places), dim), dtype=np.float32) for (_, _, places), dim in pairs
            ]
        for (group, _, places), copy in zip(self._places, self._copies, strict=True):
            for first in range(0, len(places), _AT_ONCE):
                some = slice(first, first + _AT_ONCE)
                copy[some] = self._read(group, places[some])

    def moved(self, *, renew: bool = False) -> Array:
        """For each row the largest change of any of its elements; `renew` takes a new copy.

        Args:
            renew: Whether to compare with the rows as they are now from here on.
        """
        assert self._copies is not None, "taken before"
        self._context.tables.settle()
        moved = np.zeros(len(self.rows), dtype=np.float32)
        for (group, mine, places), copy in zip(self._places, self._copies, strict=True):
            for first in range(0, len(places), _AT_ONCE):
                some = slice(first, first + _AT_ONCE)
                now = self._read(group, places[some])
                kernels.changes(now, copy[some], mine[some], renew, moved)
        return moved

    def spread(self) -> Array:
        """For each row the root mean square of the elements of its table's rows in the copy."""
        assert self._copies is not None, "taken before"
        spread = np.zeros(len(self.rows), dtype=np.float32)
        for (_, mine, _), copy in zip(self._places, self._copies, strict=True):
            mean = float(np.sqrt(np.mean(np.square(copy, dtype=np.float64))))
            spread[mine] = np.maximum(spread[mine], mean)
        return spread

    def _read(self, group: int, places: Array) -> Array:
        store = self._context.tables.stores[group]
        fields = store.record.split(store.records[places])
        return np.asarray(store.weights(fields, full=True).numpy(), dtype=np.float32)

    def state_dict(self) -> dict[str, Array]:
        """The copies, if there are any."""
        return {f"copy.{k}": one for k, one in enumerate(self._copies or ())}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Go on with the copies of another one."""
        names = [name for name in state if name.startswith("copy.")]
        if names:
            self._copies = [np.array(state[f"copy.{k}"]) for k in range(len(names))]
