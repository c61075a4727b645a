"""The embedding rows that examples access, read from a part of a data set."""

from __future__ import annotations

import numpy as np

from slipstream.arrays import Array
from slipstream.data.dataset import Part
from slipstream.data.gather import Gather
from slipstream.data.layout import fixed_fields
from slipstream.skip import kernels


class Accesses:
    """Some examples, each with its label and the rows that it accesses.

    Rows are numbered through all tables of the data set, also those that the model does not use.
    Labels and rows are read at their first use: some rules need neither.
    """

    def __init__(self, reader: AccessReader, numbers: Array) -> None:
        self._reader, self.example_numbers = reader, numbers
        # Not `cached_property`: before Python 3.12 threads then wait for each other.
        self._labels: Array | None = None
        self._rows: tuple[Array, Array] | None = None
        self._sums: tuple[Array, Array] | None = None

    def __len__(self) -> int:
        return len(self.example_numbers)

    @property
    def labels(self) -> Array:
        """The label of each example, float32."""
        if self._labels is None:
            self._labels = np.empty(len(self), dtype=np.float32)
            Gather.of(self._reader.part, self.example_numbers).fixed("labels", self._labels)
        return self._labels

    @property
    def rows(self) -> tuple[Array, Array]:
        """The rows of one example after the other, and where those of each begin."""
        if self._rows is None:
            self._rows = self._reader.rows_of(self.example_numbers)
        return self._rows

    def sums(self, of_rows: Array) -> Array:
        """The sum over the rows of each example, of numbers that do not change.

        Kept: a rule uses the same sums to score an example and to correct its log-odds.
        """
        if self._sums is None or self._sums[0] is not of_rows:
            out = np.zeros(len(self), dtype=np.float64)
            kernels.sums(*self.rows, of_rows, out)
            self._sums = of_rows, out
        return self._sums[1]

    def largest(self, of_rows: Array) -> Array:
        """The largest number over the rows of each example; minus infinity without any."""
        out = np.empty(len(self), dtype=np.float32)
        kernels.largest(*self.rows, of_rows, out)
        return out

    def bounds(self, of_rows: Array, in_table: int, in_all: int) -> Array:
        """The least bound below which enough rows of each example lie.

        These are `in_table` of its rows in each of `in_all` tables; where it has fewer, all.
        """
        out = np.full(len(self), -np.inf, dtype=np.float32)
        tables = self._reader.table_of(self.rows[0])
        kernels.bounds(*self.rows, tables, of_rows, in_table, in_all, out)
        return out

    def count(self, to_rows: Array) -> None:
        """Add 1 to each row for each access."""
        kernels.add(*self.rows, np.ones(len(self), dtype=to_rows.dtype), to_rows)

    def count_labels(self, to_rows: Array) -> None:
        """Add accesses to the rows of uint32 `[rows, 2]`: all, and those with label 1.

        Both counts of a row are one number with the second in its upper half.
        """
        amounts = np.where(self.labels > 0, np.uint64(1 << 32 | 1), np.uint64(1))
        kernels.add(*self.rows, amounts, to_rows.view("<u8")[:, 0])

    def odds_without_own(self, clicks: Array, common: float, smoothing: float) -> Array:
        """The sum of the rows' log-odds of each example, without the clicks of the example itself.

        `clicks` has the accesses of each row, and those with label 1: `[rows, 2]`. Each row has
        `smoothing` accesses added, of which the common share has label 1.
        """
        out = np.zeros(len(self), dtype=np.float64)
        kernels.odds_without_own(*self.rows, self.labels, clicks, common, smoothing, out)
        return out


class AccessReader:
    """Reads the accesses of the examples of a part.

    Attributes:
        names: The names of the tables.
        starts: The first row of each table, and the end of the last.
        rows: The rows of all tables.
    """

    def __init__(self, part: Part) -> None:
        self.part, schema = part, part.schema
        self.names = [table.name for table in schema.tables]
        sizes = [table.rows for table in schema.tables]
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.rows = int(self.starts[-1])
        start_of = dict(zip(self.names, self.starts.tolist(), strict=False))
        singles = [start_of[column.table] for column in schema.singles]
        self._single_starts = np.array(singles, dtype=np.int64)
        self._lists = [(column.name, start_of[column.table]) for column in schema.lists]
        self._ids = fixed_fields(schema)["ids"]

    def table_of(self, rows: Array) -> Array:
        """The number of the table of each row."""
        return np.asarray(np.searchsorted(self.starts, rows, side="right") - 1)

    def read(self, numbers: Array) -> Accesses:
        """The accesses of some examples."""
        return Accesses(self, numbers)

    def rows_of(self, numbers: Array) -> tuple[Array, Array]:
        """The rows of one example after the other, and where those of each begin."""
        n, columns = len(numbers), len(self._single_starts)
        gather = Gather.of(self.part, numbers)
        ids = np.empty((n, *self._ids.shape), dtype=self._ids.dtype)
        gather.fixed("ids", ids)
        singles = ids + self._single_starts
        offsets = columns * np.arange(n + 1)
        if not self._lists:
            return singles.reshape(-1), offsets
        lists = [(gather.lists(name), start) for name, start in self._lists]
        for column, _ in lists:
            offsets += column.offsets
        rows = np.empty(offsets[-1], dtype=np.int64)
        next_place = offsets[:-1].copy()
        rows[next_place[:, None] + np.arange(columns)] = singles
        next_place += columns
        for column, start in lists:
            lengths = np.diff(column.offsets)
            places = np.repeat(next_place - column.offsets[:-1], lengths)
            rows[places + np.arange(len(places))] = column.values + start
            next_place += lengths
        return rows, offsets
