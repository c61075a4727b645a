"""The log as examples: rows in order, with their negatives and histories."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.arrays import Array
from slipstream.data.encoder import KEY_DTYPE
from slipstream.data.formats.spec import LogSpec
from slipstream.data.key_table import mix
from slipstream.data.prepare.order import slices, stable_order
from slipstream.data.prepare.spill import mapped, new_map
from slipstream.data.schema import Column, ValueKind

_TRIES = 16
_FIRST_DRAWS = 1024
_POSITIVE = 0.5


@dataclass(frozen=True)
class Keys:
    """The keys of a column for some inputs; with offsets for a list column."""

    keys: Array
    missing: Array
    offsets: Array | None = None


class Log:
    """The spilled columns of a log as examples, with the values derived from other rows.

    Each row of the log is an event; an event becomes one example, or one and its negatives.
    """

    def __init__(self, spec: LogSpec, kinds: dict[str, ValueKind], work: Path, rows: int) -> None:
        self.spec, self.kinds, self.work, self.rows = spec, kinds, work, rows
        self._folder = work / "columns"
        self.order: Array | None = None
        self.columns = [Column(c.name, c.table, c.kind) for c in spec.columns]
        self._places = {c.name: f"c{number:03d}" for number, c in enumerate(spec.columns)}
        self._from: dict[str, str] = {}
        if spec.history is not None:
            for source, name in spec.history.columns.items():
                table = next(c.table for c in spec.columns if c.name == source)
                self.columns.append(Column(name, table, "sequence"))
                self._from[name] = source

    def spilled(self, name: str, dtype: object, width: int | None = None) -> Array:
        """A spilled column as a mapped array."""
        shape = None if width is None else (self.rows, width)
        return mapped(self._folder / name, np.dtype(dtype), shape)  # type: ignore[call-overload]

    def key_dtype(self, table: str) -> np.dtype[Any]:
        """The dtype of the keys of a table."""
        return KEY_DTYPE[self.kinds[table]]

    def keys(self, column: str) -> Array:
        """The keys of a column of the log, by row; flat for a list column."""
        table = next(c.table for c in self.spec.columns if c.name == column)
        return self.spilled(self._places[column], self.key_dtype(table))

    def missing(self, column: str) -> Array:
        """Where a column of the log has no value, by row; flat for a list column."""
        return self.spilled(f"{self._places[column]}.missing", np.bool_)

    @property
    def inputs_per_event(self) -> int:
        """The most inputs that an event becomes."""
        return 1 + (self.spec.negatives.per_positive if self.spec.negatives else 0)

    def examples(
        self, start: int, stop: int, *, own: bool = False
    ) -> tuple[Array | slice, Array | None]:
        """For each example of some events: its row, and the row that its negative values come from.

        The first is a slice where rows lie in order. The second is -1 for the event itself; it is
        None where a log has no negatives, and with `own`, which leaves them out.
        """
        rows = slice(start, stop) if self.order is None else self.order[start:stop]
        negatives = self.spec.negatives
        if negatives is None or own:
            return rows, None
        shape = (self.rows, negatives.per_positive)
        drawn = mapped(self.work / "negatives", np.int64, shape)[rows]
        first = np.full((len(drawn), 1), -1)
        exists = np.concatenate([np.ones_like(first, dtype=np.bool_), drawn >= 0], axis=1)
        numbers = np.arange(start, stop) if isinstance(rows, slice) else rows
        owners = np.repeat(numbers, drawn.shape[1] + 1).reshape(exists.shape)[exists]
        return owners, np.concatenate([first, drawn], axis=1)[exists]

    @property
    def derived(self) -> bool:
        """Whether examples hold values of other rows."""
        return self.spec.negatives is not None or self.spec.history is not None

    def own_columns(self) -> list[Column]:
        """All columns but histories."""
        return [column for column in self.columns if column.name not in self._from]

    def column(self, column: Column, start: int, stop: int, *, own: bool = False) -> Keys:
        """The keys of a column for the inputs of some events; `own` leaves out negatives."""
        rows, drawn = self.examples(start, stop, own=own)
        source = self._from.get(column.name)
        if source is not None:
            if isinstance(rows, slice):
                rows = np.arange(rows.start, rows.stop)
            earlier, offsets = ranges(self._file("begin")[rows], self._file("end")[rows])
            members = self._file("clicks")[earlier]
            return Keys(self.keys(source)[members], self.missing(source)[members], offsets)
        if column.kind != "single":
            return self._lists(column.name, rows)
        negatives = self.spec.negatives
        if drawn is not None and negatives is not None and column.name in negatives.columns:
            assert not isinstance(rows, slice), "where there are negatives, rows are listed"
            rows = np.where(drawn >= 0, drawn, rows)
        return Keys(self.keys(column.name)[rows], self.missing(column.name)[rows])

    def _lists(self, column: str, rows: Array | slice) -> Keys:
        ends = self._file(f"columns/{self._places[column]}.ends")
        if isinstance(rows, slice):
            rows = np.arange(rows.start, rows.stop)
        starts = np.where(rows > 0, ends[np.maximum(rows - 1, 0)], 0)
        flat, offsets = ranges(starts, ends[rows])
        return Keys(self.keys(column)[flat], self.missing(column)[flat], offsets)

    def width(self, column: Column) -> int:
        """About how many keys of a column an event has, at most."""
        if column.name in self._from:
            assert self.spec.history is not None, "a column with a source is a history"
            return self.inputs_per_event * self.spec.history.length
        if column.kind != "single":
            return self.inputs_per_event * (1 + len(self.keys(column.name)) // max(1, self.rows))
        return self.inputs_per_event

    def _file(self, name: str) -> Array:
        return mapped(self.work / name, np.int64)

    def add_up_lengths(self) -> None:
        """Write where each list of the list columns ends."""
        for column in self.spec.columns:
            if column.kind != "single":
                place = self._places[column.name]
                lengths = self.spilled(f"{place}.lengths", np.int64)
                ends = new_map(self._folder / f"{place}.ends", self.rows, np.int64)
                total = 0
                for start, stop in slices(0, self.rows):
                    ends[start:stop] = np.cumsum(lengths[start:stop]) + total
                    total = int(ends[stop - 1])

    def draw_negatives(self, order: Array | None) -> int:
        """Draw other events for each event, by row; return how many could not be drawn.

        `order` is the order of time. A draw takes an event before this one (or among the first
        1,024), so values are drawn as often as they occurred so far; a draw of the own value
        is repeated.
        """
        negatives = self.spec.negatives
        assert negatives is not None, "called only for a log with negatives"
        each = negatives.per_positive
        keys, missing = self.keys(negatives.columns[0]), self.missing(negatives.columns[0])
        out = new_map(self.work / "negatives", self.rows * each, np.int64).reshape(-1, each)
        lost = 0
        for start, stop in slices(0, self.rows, max(1024, (1 << 18) // each)):
            places = np.arange(start, stop)
            rows = places if order is None else order[start:stop]
            bound = np.maximum(places, min(self.rows, _FIRST_DRAWS))
            for number in range(each):
                others = np.full(len(places), -1)
                left = np.arange(len(places))
                for attempt in range(_TRIES):
                    counter = (places[left] * each + number) * _TRIES + attempt
                    drawn = _draw(counter, negatives.seed, bound[left])
                    other = drawn if order is None else order[drawn]
                    own = rows[left]
                    same = (keys[other] == keys[own]) & (missing[other] == missing[own])
                    same |= missing[other] & missing[own]
                    others[left[~same]] = other[~same]
                    left = left[same]
                    if not len(left):
                        break
                lost += len(left)
                out[rows, number] = others
        return lost

    def find_histories(self, order: Array | None, limit: int) -> None:
        """Find the earlier clicks of each event's user: `clicks[begin[row]:end[row]]`."""
        history = self.spec.history
        assert history is not None, "called only for a log with histories"
        users, unknown = self.keys(history.user), self.missing(history.user)
        by_user = stable_order(users, self.work / "by_user", limit, order)
        clicks = new_map(self.work / "clicks", self.rows, np.int64)
        begin = new_map(self.work / "begin", self.rows, np.int64)
        end = new_map(self.work / "end", self.rows, np.int64)
        labels = self.spilled("label", np.float32) if self.spec.label else None
        count, group, last = 0, 0, None
        for start, stop in slices(0, self.rows):
            rows = by_user[start:stop]
            clicked = ~unknown[rows]
            if labels is not None:
                clicked &= labels[rows] > _POSITIVE
            before = count + np.cumsum(clicked) - clicked
            own = users[rows]
            fresh = np.ones(len(own), dtype=np.bool_)
            fresh[1:] = own[1:] != own[:-1]
            fresh[0] = last is None or own[0] != last
            groups = np.maximum.accumulate(np.where(fresh, before, group))
            earliest = np.maximum(groups, before - history.length)
            begin[rows], end[rows] = np.where(unknown[rows], before, earliest), before
            total = count + int(clicked.sum())
            clicks[count:total] = rows[clicked]
            count, group, last = total, int(groups[-1]), own[-1]


def ranges(starts: Array, ends: Array) -> tuple[Array, Array]:
    """All numbers from each start to its end, and where each run begins among them."""
    lengths = ends - starts
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths), offsets


def _draw(counters: Array, seed: int, bound: Array) -> Array:
    """A number below each bound."""
    salt = mix(np.array([seed], dtype=np.int64))
    words = mix(counters.astype(np.uint64) ^ salt) >> np.uint64(11)
    return (words.astype(np.float64) * 2.0**-53 * bound).astype(np.int64)
