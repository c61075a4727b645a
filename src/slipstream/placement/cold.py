"""Plans for a device that finds kept rows by itself: the host looks at the other rows alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slipstream.ahead import Ahead
from slipstream.data.batch import Batch
from slipstream.data.inputs import Array
from slipstream.embedding.kernels import cold
from slipstream.embedding.spec import Group, Layout
from slipstream.errors import ConfigError, DataError
from slipstream.placement.tier import Room


class Kept(NamedTuple):
    """The kept rows of one group, which are the first of each of its tables.

    Args:
        columns: For each feature its column in the block of single ids.
        limits: How many rows of its table are kept.
        starts: Where the rows of its table begin.
        sizes: How many there are.
        bases: The slot of the first of them.
    """

    columns: Array
    limits: Array
    starts: Array
    sizes: Array
    bases: Array


@dataclass(frozen=True)
class ColdPlan:
    """What a device must be told of one group's rows; all that is not here is kept.

    Args:
        places: int32: the lookups of rows that are not kept, `input * features + feature`.
        slots: int32: where these rows are.
        fill_rows: Rows to bring in before the step.
        fill_slots: int32: their slots.
        evict_rows: Rows to write back after it.
        evict_slots: int32: their slots.
    """

    places: Array
    slots: Array
    fill_rows: Array
    fill_slots: Array
    evict_rows: Array
    evict_slots: Array


class ColdPlaced(NamedTuple):
    """A batch, what to tell the device of each group, and the step whose write-backs it awaits.

    A batch that does not fit beside the kept rows, even alone, is `aside`: what its plans fill are
    the rows that it needs and that are in slots, but for kept ones.
    """

    batch: Batch
    groups: tuple[ColdPlan, ...]
    after: int
    aside: bool = False


def kept_of(layout: Layout, group: Group, singles: Sequence[str], keep: Array) -> Kept | None:
    """How a device finds kept rows by comparing ids, or None where it cannot.

    It can where every feature is a single one and the kept rows of each table are its first.

    Args:
        layout: Tables and features.
        group: One of its groups.
        singles: The names of the columns in the block of single ids, in order.
        keep: The kept rows, in order of their slots.
    """
    if group.sequences or any(layout.features[n].kind != "single" for n in group.features):
        return None
    limits, bases = {}, {}
    end = 0
    for table, start, stop in zip(group.tables, group.starts, group.starts[1:], strict=False):
        count = int(np.count_nonzero((keep >= start) & (keep < stop)))
        if not np.array_equal(keep[end : end + count], np.arange(start, start + count)):
            return None
        limits[table.name], bases[table.name] = count, end
        end += count
    features = [layout.features[n] for n in group.features]
    return Kept(
        columns=np.array([singles.index(f.column) for f in features], dtype=np.int64),
        limits=np.array([limits[f.table] for f in features], dtype=np.int32),
        starts=np.array([group.start(f.table) for f in features], dtype=np.int64),
        sizes=np.array([layout.table(f.table).rows for f in features], dtype=np.int64),
        bases=np.array([bases[f.table] for f in features], dtype=np.int32),
    )


_Scanned = tuple[Batch, list[tuple[Array, Array]]]


class Cold:
    """Plans which rows are brought into the fast tier, and which leave it, looking ahead.

    It makes the decisions that `Tiered` makes with kept rows that stay the same, but looks only at
    lookups of other rows, and leaves it to the device to find the slots of kept rows and the
    distinct rows of a batch. That is what makes it several times faster.

    Args:
        layout: Tables and features.
        singles: The names of the columns in the block of single ids, in order.
        rooms: The fast tier of each group.
        window: The most batches to look ahead, the current one among them.
        scans_ahead: Batches that a thread of its own has scanned beyond these; 0 scans here.
    """

    def __init__(
        self,
        layout: Layout,
        singles: Sequence[str],
        rooms: Sequence[Room],
        window: int,
        scans_ahead: int = 0,
    ) -> None:
        if window < 1:
            raise ConfigError(f"The window is {window} batches; it must be at least 1.")
        self._names = [
            [layout.features[n].column for n in group.features] for group in layout.groups
        ]
        self._rooms, self._window, self._scans_ahead = rooms, window, scans_ahead
        self.kept = [
            kept_of(layout, group, singles, room.keep)
            for group, room in zip(layout.groups, rooms, strict=True)
        ]
        self._rows = [group.rows for group in layout.groups]
        found = [kept for kept in self.kept if kept is not None]
        self._side_by_side = [bool((np.diff(kept.columns) == 1).all()) for kept in found]
        self._at_once = [_at_once(kept) for kept in found]

    def place(self, batches: Iterable[Batch], step: int) -> Iterator[ColdPlaced]:
        """What comes before each batch and what leaves after it; the first has number `step`."""
        tiers = [_Tier(rows, room) for rows, room in zip(self._rows, self._rooms, strict=True)]
        waiting: deque[_Waiting] = deque()
        coming = self._scanned(batches)
        held: _Waiting | None = None
        number = last = step
        while True:
            while len(waiting) < self._window:
                if held is None:
                    scanned = next(coming, None)
                    if scanned is None:
                        break
                    batch, found = scanned
                    entered = [
                        tier.enter(rows, number, last)
                        for tier, (_, rows) in zip(tiers, found, strict=True)
                    ]
                    held = _Waiting(
                        batch, found, [new for new, _ in entered], max(a for _, a in entered)
                    )
                    last += 1
                fits = all(t.fits(new) for t, new in zip(tiers, held.new, strict=True))
                if not fits and waiting:
                    break
                if not fits:
                    some = zip(tiers, held.found, strict=True)
                    groups = tuple(tier.aside(rows, number) for tier, (_, rows) in some)
                    yield ColdPlaced(held.batch, groups, number - 1, aside=True)
                    number, held = number + 1, None
                    continue
                for tier, new in zip(tiers, held.new, strict=True):
                    tier.wanted += new
                waiting.append(held)
                held = None
            if not waiting:
                return
            first = waiting.popleft()
            groups = tuple(
                tier.emit(places, rows, number)
                for tier, (places, rows) in zip(tiers, first.found, strict=True)
            )
            yield ColdPlaced(first.batch, groups, first.after)
            number += 1

    def _scanned(self, batches: Iterable[Batch]) -> Iterator[_Scanned]:
        """Batches with their lookups of rows that are not kept; a thread scans some ahead."""
        scanned = (
            (batch, [self._lookups(group, batch) for group in range(len(self.kept))])
            for batch in batches
        )
        if not self._scans_ahead:
            yield from scanned
            return
        with Ahead(scanned, self._scans_ahead) as ahead:
            yield from ahead

    def _lookups(self, group: int, batch: Batch) -> tuple[Array, Array]:
        """The lookups of rows that are not kept, and the rows."""
        kept = self.kept[group]
        assert kept is not None, "only asked where a device can find kept rows"
        features, n = len(kept.columns), batch.n_valid
        ids = _columns(batch.ids.numpy()[:n], kept.columns, self._side_by_side[group])
        unsigned = np.uint32 if ids.dtype == np.int32 else np.uint64
        bits = ids.view(unsigned)
        places, rows = np.empty(n * features, dtype=np.int32), np.empty(n * features, np.int64)
        masks = np.empty(n, dtype=np.uint32)
        found = 0
        for first, last, limits, starts, sizes in self._at_once[group]:
            cold.not_kept(bits[:, first:last], limits[ids.itemsize], masks)
            out = places[found:], rows[found:]
            count = cold.cold_lookups(
                ids[:, first:last], masks, first, features, starts, sizes, *out
            )
            if count < 0:
                i, feature = divmod(-1 - count, features)
                raise DataError(
                    f"Input {int(batch.numbers[i])} has the id {ids[i, feature]} in column "
                    f"{self._names[group][feature]!r}, whose table has {kept.sizes[feature]:,} "
                    "rows."
                )
            found += count
        return places[:found], rows[:found]


def _at_once(kept: Kept) -> list[tuple[int, int, dict[int, Array], Array, Array]]:
    """Features that are looked at together: their limits for ids of so many bytes, their tables."""
    made = []
    for first in range(0, len(kept.columns), cold.AT_ONCE):
        some = slice(first, first + cold.AT_ONCE)
        limits: dict[int, Array] = {
            4: kept.limits[some].astype(np.uint32),
            8: kept.limits[some].astype(np.uint64),
        }
        last = first + len(limits[4])
        made.append((first, last, limits, kept.starts[some], kept.sizes[some]))
    return made


def _columns(ids: Array, columns: Array, side_by_side: bool) -> Array:
    """Some columns; not copied where they stand side by side."""
    if side_by_side:
        return ids[:, columns[0] : columns[0] + len(columns)]
    return np.ascontiguousarray(ids[:, columns])


@dataclass(frozen=True)
class _Waiting:
    """A batch in the window."""

    batch: Batch
    found: list[tuple[Array, Array]]
    new: list[int]
    after: int


class _Tier:
    """What is known of one group's rows that are not kept."""

    def __init__(self, rows: int, room: Room) -> None:
        self.known = np.zeros((rows, 2), dtype=np.int32)
        self.known[:, cold.SLOT] = -1
        first = len(room.keep)
        self.n_free = self.room = room.slots - first
        self.free = np.arange(room.slots - 1, first - 1, -1, dtype=np.int32)
        self.wanted = 0

    def enter(self, rows: Array, first: int, step: int) -> tuple[int, int]:
        new, after = cold.enter(rows, self.known, first, step)
        return int(new), int(after)

    def fits(self, new: int) -> bool:
        return self.wanted + new <= self.room

    def aside(self, rows: Array, step: int) -> ColdPlan:
        rows = np.unique(rows)
        slots = self.known[rows, cold.SLOT]
        rows, slots = rows[slots >= 0], slots[slots >= 0]
        gone = self.known[rows, cold.USED] == step
        self.known[rows[gone], cold.SLOT] = -1
        left = int(gone.sum())
        self.free[self.n_free : self.n_free + left] = slots[gone]
        self.n_free += left
        self.wanted -= left
        none = np.empty(0, dtype=np.int32)
        return ColdPlan(none, none, rows, slots, rows[gone], slots[gone])

    def emit(self, places: Array, rows: Array, step: int) -> ColdPlan:
        n = len(rows)
        slots, fill_slots, evict_slots = (np.empty(n, dtype=np.int32) for _ in range(3))
        fill_rows, evict_rows = (np.empty(n, dtype=np.int64) for _ in range(2))
        filled, gone = cold.emit(
            rows,
            self.known,
            step,
            self.free,
            self.n_free,
            slots,
            fill_rows,
            fill_slots,
            evict_rows,
            evict_slots,
        )
        self.n_free += gone - filled
        self.wanted -= gone
        return ColdPlan(
            places,
            slots,
            fill_rows[:filled],
            fill_slots[:filled],
            evict_rows[:gone],
            evict_slots[:gone],
        )
