"""How far embedding rows have moved: a copy of some of them, compared with the rows later."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from slipstream.arrays import Array
from slipstream.skip.context import RunContext

_AT_ONCE = 1 << 14  # rows


class Snapshot:
    """A copy of some rows of the data set, in rising order, in every table of the model."""

    def __init__(self, context: RunContext, rows: Array) -> None:
        self.rows, self._tables = rows, context.tables
        self._places = context.places(rows)
        self._copies: list[Array] = []
        self._squares = np.zeros(len(self._places))  # the sum of squares of each copy

    @property
    def exists(self) -> bool:
        """Whether the rows have been copied."""
        return bool(self._copies)

    def take(self) -> tuple[Array, Array]:
        """Copy the rows as they are now.

        Returns:
            For each row the largest change of an element since the copy before, and the root mean
            square of its table's rows in that copy; the first copy is compared with zeros.
        """
        self._tables.flush()
        moved, spread = (np.zeros(len(self.rows), dtype=np.float32) for _ in range(2))
        for number, (group, places_of_rows, places) in enumerate(self._places):
            store = self._tables.stores[group]
            if number == len(self._copies):
                self._copies.append(np.zeros((len(places), store.group.dim), dtype=np.float32))
            copy = self._copies[number]
            mean = self._squares[number] / copy.size
            spread[places_of_rows] = np.maximum(spread[places_of_rows], np.sqrt(mean))
            for start in range(0, len(places), _AT_ONCE):
                some = slice(start, start + _AT_ONCE)
                fields = store.record.split(store.records[places[some]])
                now = np.asarray(store.weights(fields, full=True).numpy(), dtype=np.float32)
                change = np.abs(now - copy[some]).max(axis=1)
                moved[places_of_rows[some]] = np.maximum(moved[places_of_rows[some]], change)
                copy[some] = now
            self._squares[number] = np.dot(copy.ravel(), copy.ravel())
        return moved, spread

    def state_dict(self) -> dict[str, Array]:
        """The copies, if there are any."""
        if not self.exists:
            return {}
        copies = {f"copy.{k}": copy for k, copy in enumerate(self._copies)}
        return {**copies, "squares": self._squares}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Continue with saved copies."""
        if "squares" in state:
            self._copies = [np.array(state[f"copy.{k}"]) for k in range(len(self._places))]
            self._squares = np.array(state["squares"])
