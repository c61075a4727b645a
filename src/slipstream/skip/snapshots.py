"""How far rows have moved: a copy of some of them, compared with what they are later.

A pass over the rows takes them as they are at one step, and goes through them a slice at a time
between the steps that follow. Whoever changes a row meanwhile tells first, and the row is taken
then: so every row is taken as it was when the pass began, and no step waits for more than a slice
and the rows that it changes itself.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from slipstream.data.inputs import Array
from slipstream.skip import kernels
from slipstream.skip.calendar import Turns
from slipstream.skip.context import Context
from slipstream.tables.store import in_memory

SLICE = 4 << 20
"""Bytes of rows, 4 for an element, that a pass takes between two steps."""
_AT_ONCE = 1 << 14  # rows at a time: they stay in a near cache
_FEW = 1000  # rows for which not all of a fast tier is written back


class _Piece(NamedTuple):
    """Some of the rows in one of the model's tables: the number of its copy, and which of them."""

    copy: int
    rows: slice


class Snapshot(Turns):
    """A copy of some rows, in every table of the model that has them.

    Args:
        context: The run.
        rows: Which rows, numbered through all tables of the data set; rising.
    """

    def __init__(self, context: Context, rows: Array) -> None:
        self.rows = rows
        self._tables = context.tables
        self._places = context.places(rows)
        self._dims = [self._tables.stores[group].group.dim for group, _, _ in self._places]
        self._slices = self._sliced()
        super().__init__(len(self._slices))
        self._copies = [self._room(len(places), dim) for (_, _, places), dim in self._with_dims()]
        self._moved = np.zeros(0, dtype=np.float32)
        self._waiting: list[Array] = []  # for each group which of its rows are still to be taken
        self._renews = False
        # Of each copy the sum of squares: as it is now, and as it was before the last pass.
        self._squares = self._before = np.zeros(len(self._places))
        self._lock = threading.Lock()  # rows are also changed by who carries them between tiers
        self._tables.also_tell(self._before_write)

    def _begin(self, renew: bool) -> None:
        """The rows are taken as they are now.

        The first pass copies them; a later one also finds how far they have moved.
        """
        self._tables.settle(self._own_rows())
        self._renews = renew or not self.compares
        self._moved = np.zeros(len(self.rows), dtype=np.float32)
        if self._renews:
            self._before, self._squares = self._squares, np.zeros(len(self._places))
        if len(self._slices) > 1:
            self._wait_for([np.ones(len(places), dtype=bool) for _, _, places in self._places])

    def _own_rows(self) -> list[Array] | None:
        """For each group its rows, where they are few."""
        if len(self.rows) > _FEW:
            return None
        none = [np.empty(0, dtype=np.int64)]
        return [
            np.concatenate([*none, *(places for at, _, places in self._places if at == group)])
            for group in range(len(self._tables.stores))
        ]

    def go_on(self) -> bool:
        """Take the next slice of a pass that is under way; whether it has ended with that."""
        if not self.under_way:
            return False
        with self._lock:
            for copy, rows in self._slices[self._next]:
                for first in range(rows.start, rows.stop, _AT_ONCE):
                    self._take_waiting(copy, np.arange(first, min(first + _AT_ONCE, rows.stop)))
                if self._renews:
                    # In this order, whichever rows were taken before their turn.
                    taken = self._copies[copy][rows].ravel()
                    self._squares[copy] += np.dot(taken, taken)
            ended = super().go_on()
            if ended:
                self._waiting = []
        return ended

    def moved(self) -> Array:
        """For each row the largest change of any of its elements, by the last pass."""
        assert self.compares, "a pass had something to compare with"
        assert not self.under_way, "it has ended"
        return self._moved

    def spread(self) -> Array:
        """For each row the root mean square of its table's rows, as the last pass compared with."""
        spread = np.zeros(len(self.rows), dtype=np.float32)
        squares = self._before if self._renews else self._squares
        for ((_, mine, places), dim), total in zip(self._with_dims(), squares, strict=True):
            spread[mine] = np.maximum(spread[mine], np.sqrt(total / (len(places) * dim)))
        return spread

    def _wait_for(self, which: list[Array]) -> None:
        """Have these rows of each copy still to be taken."""
        waiting = [np.zeros(store.group.rows, dtype=bool) for store in self._tables.stores]
        for (group, _, places), some in zip(self._places, which, strict=True):
            waiting[group][places] = some
        self._waiting = waiting

    def _before_write(self, group: int, rows: Array) -> None:
        """Take rows that are about to change, unless they are taken."""
        if not self._waiting:
            return
        with self._lock:
            if not self._waiting:
                return
            waiting = self._waiting[group]
            mine = rows[rows >= 0]
            mine = np.unique(mine[waiting[mine]])
            waiting[mine] = False
            for copy, (number, _, places) in enumerate(self._places):
                if number == group:  # tables stand in a group one behind the other
                    first, last = np.searchsorted(mine, (places[0], places[-1] + 1))
                    self._take(copy, np.searchsorted(places, mine[first:last]))

    def _take_waiting(self, copy: int, some: Array) -> None:
        """Take those of some rows that are not taken yet."""
        if self._waiting:
            group, _, places = self._places[copy]
            some = some[self._waiting[group][places[some]]]
            self._waiting[group][places[some]] = False
        self._take(copy, some)

    def _take(self, copy: int, some: Array) -> None:
        """Compare and copy rows of a table, by where they stand in its copy."""
        group, mine, places = self._places[copy]
        store = self._tables.stores[group]
        fields = store.record.split(store.records[places[some]])
        now = np.asarray(store.weights(fields, full=True).numpy(), dtype=np.float32)
        if self.compares:
            kernels.changes(now, self._copies[copy], some, mine, self._renews, self._moved)
        else:
            self._copies[copy][some] = now

    @staticmethod
    def _room(rows: int, dim: int) -> Array:
        """Memory of a copy; all of it in use already, or the first pass would wait for it."""
        made = in_memory((rows, dim)).view(np.float32)
        made.fill(0)
        return made

    def _with_dims(self) -> list[tuple[tuple[int, Array, Array], int]]:
        return list(zip(self._places, self._dims, strict=True))

    def _sliced(self) -> list[list[_Piece]]:
        """All rows, in slices of a bounded size."""
        made: list[list[_Piece]] = [[]]
        room = SLICE
        for copy, ((_, _, places), dim) in enumerate(self._with_dims()):
            first = 0
            while first < len(places):
                some = min(len(places) - first, room // (4 * dim))
                if some:
                    made[-1].append(_Piece(copy, slice(first, first + some)))
                    first, room = first + some, room - some * 4 * dim
                else:
                    made.append([])
                    room = max(SLICE, 4 * dim)
        return made

    def state_dict(self) -> dict[str, Array]:
        """The copies, if there are any, and how far a pass is."""
        if not self.taken:
            return {}
        state = {f"copy.{k}": one for k, one in enumerate(self._copies)}
        state["squares"] = np.stack([self._squares, self._before])
        if self.under_way:
            state["pass"] = np.array([self._next, self.compares, self._renews], dtype=np.int64)
            state["moved"] = self._moved
            for k, (group, _, places) in enumerate(self._places):
                state[f"waiting.{k}"] = self._waiting[group][places]
        return state

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Go on with the copies of another one."""
        if "squares" not in state:
            return
        self.begun = 1
        for k, copy in enumerate(self._copies):
            copy[:] = state[f"copy.{k}"]
        self._squares, self._before = np.array(state["squares"])
        if "pass" in state:
            self._next, compares, renews = (int(one) for one in state["pass"])
            self.compares, self._renews = bool(compares), bool(renews)
            self._moved = np.array(state["moved"])
            self._wait_for([state[f"waiting.{k}"] for k in range(len(self._places))])
