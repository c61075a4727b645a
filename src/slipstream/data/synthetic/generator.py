"""Draws the examples of built-in data as raw values: what a log would hold, without the labels."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from slipstream.arrays import Array
from slipstream.background import map_in_threads
from slipstream.data.synthetic.draws import PowerLaw, key, random_words, shares
from slipstream.data.synthetic.shapes import ColumnShape, DataShape
from slipstream.errors import ConfigError

DENSE_VALUES = 1 << 16
MISSING_VALUE = 1  # the value that stands for a missing one, in tables that have it
FIRST_TIME = 1_500_000_000
CHUNK_VALUES = 1 << 15  # the most values of one column that are drawn at once
THREADS = min(16, os.cpu_count() or 1)
_FAVOURITES = 8
R = TypeVar("R")


@dataclass(frozen=True)
class Drift:
    """How popularity and the teacher change over the log.

    With `gradual` each row changes at its own moment, with `sudden` all rows at one moment, given
    as the share of the log that has passed.
    """

    kind: str
    moment: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Drift:
        """The drift that a user wrote: `none`, `gradual` or `sudden@SHARE`."""
        kind, at, moment = text.partition("@")
        if kind in ("none", "gradual") and not at:
            return cls(kind)
        try:
            if kind == "sudden" and 0 <= float(moment) <= 1:
                return cls("sudden", float(moment))
        except ValueError:
            pass
        raise ConfigError(
            f"Drift {text!r} is not known; write none, gradual, or sudden@SHARE with a share of "
            "the examples from 0 to 1, such as sudden@0.5."
        )

    def has_happened(self, moments: Array, words: Array) -> Array:
        """Whether rows, each with a random word, have changed at these shares of the log."""
        if self.kind == "none":
            return np.zeros(len(moments), dtype=bool)
        return moments >= (shares(words) if self.kind == "gradual" else self.moment)


@dataclass(frozen=True)
class ColumnValues:
    """The values of one column for some examples."""

    values: Array
    lengths: Array | None = None  # how many values each example has; None in a single column

    def per_value(self, array: Array) -> Array:
        """An array with one element for each example, with one for each value."""
        return array if self.lengths is None else np.repeat(array, self.lengths)

    def mean(self, of_values: Array) -> Array:
        """The mean over the values of each example; 0 for an empty list."""
        if self.lengths is None:
            return of_values
        examples = np.repeat(np.arange(len(self.lengths)), self.lengths)
        sums = np.bincount(examples, of_values, minlength=len(self.lengths))
        return np.asarray(sums / np.maximum(1, self.lengths))


@dataclass(frozen=True)
class RawExamples:
    """Some examples before their values are ranked."""

    example_numbers: Array  # positions in the whole log
    moments: Array  # the share of the log that has passed at each example
    columns: dict[str, ColumnValues]
    dense: list[Array]  # counts from 0 to 2 ** 16, or -1 where missing
    times: Array | None  # Unix seconds


class ExampleGenerator:
    """Draws any examples of a log that is given by a shape, a length, a seed and a drift."""

    def __init__(self, shape: DataShape, examples: int, seed: int, drift: Drift) -> None:
        self.shape, self.examples, self.seed, self.drift = shape, examples, seed, drift
        self._laws = {
            table.name: PowerLaw.over(table.rows, table.exponent) for table in shape.tables
        }
        self._dense_laws = [
            PowerLaw.over(DENSE_VALUES, 0.9 + 0.7 * (number % 5) / 4)
            for number in range(shape.dense)
        ]

    def map_chunks(self, work: Callable[[Array], R], start: int, stop: int) -> Iterator[R]:
        """Call `work` with the numbers of examples [start, stop), a chunk at a time, in threads."""
        chunk = max(1, CHUNK_VALUES // max(column.lengths[1] for column in self.shape.columns))
        chunks = (np.arange(first, min(first + chunk, stop)) for first in range(start, stop, chunk))
        for _, result in map_in_threads(work, chunks, THREADS, waiting=2 * THREADS):
            yield result

    def draw(self, numbers: Array, *, ids_only: bool = False) -> RawExamples:
        """Draw the examples of these numbers; without dense values if only ids are needed."""
        moments = numbers / self.examples
        times = None
        if self.shape.seconds:
            times = FIRST_TIME + numbers * self.shape.seconds // self.examples
        columns: dict[str, ColumnValues] = {}
        for column in self.shape.columns:
            columns[column.name] = self._draw_column(column, numbers, moments, times, columns)
        dense = [] if ids_only else [self._draw_dense(n, numbers) for n in range(self.shape.dense)]
        return RawExamples(numbers, moments, columns, dense, times)

    def _draw_column(
        self,
        column: ColumnShape,
        numbers: Array,
        moments: Array,
        times: Array | None,
        columns: dict[str, ColumnValues],
    ) -> ColumnValues:
        if column.clock:
            assert times is not None, "a shape with a clock column has times"
            return ColumnValues(times // 3600 % 24)
        law = self._laws[column.table]
        if column.decided_by is not None:
            parent = columns[column.decided_by]
            words = random_words(key(self.seed, "decided", column.table), parent.values)
            return ColumnValues(law.draw(words), parent.lengths)
        cells, lengths = numbers, None
        if column.kind != "single":
            shortest, longest = column.lengths
            words = random_words(key(self.seed, "length", column.name), numbers)
            lengths = shortest + (shares(words) * (longest - shortest + 1)).astype(np.int64)
            steps = np.arange(longest)
            cells = (numbers[:, None] * longest + steps)[steps < lengths[:, None]]
        cell_values = ColumnValues(cells, lengths)
        words = random_words(key(self.seed, "value", column.name), cells)
        if column.favourites_of is not None:
            fan = cell_values.per_value(columns[column.favourites_of].values)
            choice = random_words(key(self.seed, "choice", column.name), cells)
            favourite = fan * _FAVOURITES + (choice % np.uint64(_FAVOURITES)).astype(np.int64)
            liked = random_words(key(self.seed, "favourite", column.table), favourite)
            words = np.where(shares(choice) < 0.75, liked, words)  # three times out of four
        popularity = law.draw(words)
        return ColumnValues(
            self._drifted(column.table, popularity, cell_values.per_value(moments)), lengths
        )

    def _drifted(self, table: str, popularity: Array, moments: Array) -> Array:
        """The value that has this popularity rank at the moment."""
        if self.drift.kind == "none":
            return popularity
        words = random_words(key(self.seed, "popularity", table), popularity)
        rows = self._laws[table].rows
        stride = max(1, round(rows * 0.382))  # from the first set of popular values to the second
        return (popularity + stride * self.drift.has_happened(moments, words)) % rows

    def _draw_dense(self, number: int, numbers: Array) -> Array:
        counts = self._dense_laws[number].draw(
            random_words(key(self.seed, "dense", number), numbers)
        )
        missing = (number * 7 % 10) / 20  # in 0 to 45 % of the examples
        words = random_words(key(self.seed, "present", number), numbers)
        return np.where(shares(words) < missing, -1, counts)
