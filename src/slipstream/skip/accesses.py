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
    Each array is read at its first use: some rules use labels only, or nothing.

    Args:
        reader: Knows the tables.
        numbers: The numbers of the examples.
    """

    def __init__(self, reader: AccessReader, numbers: Array) -> None:
        self._reader, self.numbers = reader, numbers
        self.starts, self.tables = reader.single_starts, reader.tables
        # Not `cached_property`: in some versions of Python threads then wait for each other.
        self._gather_of: Gather | None = None
        self._ids: Array | None = None
        self._labels: Array | None = None
        self._lists: tuple[Array, Array] | None = None
        self._sums: dict[int, tuple[Array, Array]] = {}

    @property
    def _gather(self) -> Gather:
        if self._gather_of is None:
            self._gather_of = Gather.of(self._reader.part, self.numbers)
        return self._gather_of

    @property
    def labels(self) -> Array:
        """The label of each example, float32."""
        if self._labels is None:
            self._labels = np.empty(len(self), dtype=np.float32)
            self._gather.fixed("labels", self._labels)
        return self._labels

    @property
    def ids(self) -> Array:
        """The ids of single columns, `[examples, columns]`; the rows of id 0 are `starts`."""
        if self._ids is None:
            field = self._reader.ids
            self._ids = np.empty((len(self), *field.shape), dtype=field.dtype)
            self._gather.fixed("ids", self._ids)
        return self._ids

    @property
    def lists(self) -> tuple[Array, Array]:
        """The rows of list columns, one column after the other, and where the lists begin."""
        if self._lists is None:
            lists = self._reader.lists
            values, end = [np.empty(0, np.int64)], 0
            offsets = np.zeros((len(lists), len(self) + 1), dtype=np.int64)
            for place, (name, table) in enumerate(lists):
                ragged = self._gather.lists(name)
                values.append(ragged.values.astype(np.int64) + self._reader.starts[table])
                offsets[place] = ragged.offsets + end
                end += len(ragged.values)
            self._lists = np.concatenate(values), offsets
        return self._lists

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def _rows(self) -> tuple[Array, Array, Array, Array]:
        return self.ids, self.starts, *self.lists

    def rows(self) -> Array:
        """The rows of all accesses."""
        return np.concatenate([(self.ids + self.starts).reshape(-1), self.lists[0]])

    def sums(self, of_rows: Array) -> Array:
        """The sum over the rows of each example, of numbers that do not change.

        Kept: a rule uses the same sums to score an example and to correct its log-odds.
        """
        if id(of_rows) not in self._sums:
            out = np.zeros(len(self), dtype=np.float64)
            kernels.sums(*self._rows, of_rows, out)
            out.flags.writeable = False
            self._sums[id(of_rows)] = of_rows, out  # holds the array, so that its id stays its own
        return self._sums[id(of_rows)][1]

    def largest(self, of_rows: Array) -> Array:
        """The largest number over the rows of each example; minus infinity without any."""
        return self._largest(of_rows)[0]

    def table_of_largest(self, of_rows: Array) -> Array:
        """The number of the table with the largest row of each example; -1 without any."""
        columns = self._largest(of_rows)[1]
        return np.where(columns < 0, -1, self.tables[columns])

    def _largest(self, of_rows: Array) -> tuple[Array, Array]:
        out = np.empty(len(self), dtype=np.float32)
        columns = np.empty(len(self), dtype=np.int64)
        kernels.largest(*self._rows, of_rows, out, columns)
        return out, columns

    def bounds(self, of_rows: Array, in_table: int, in_all: int) -> Array:
        """The least bound below which enough rows of each example lie.

        Args:
            of_rows: A number for each row.
            in_table: So many of the rows that it accesses in a table must lie below the bound for
                the table to do so; of fewer, all.
            in_all: So many of its tables must; of fewer, all.
        """
        out = np.full(len(self), -np.inf, dtype=np.float32)
        kernels.bounds(*self._rows, self.tables, of_rows, in_table, in_all, out)
        return out

    def count(self, into: Array) -> None:
        """Add 1 to each row for each access."""
        kernels.count(self.ids, self.starts, self.lists[0], into)

    def count_labels(self, into: Array) -> None:
        """Add accesses to the rows of `into`, uint32 `[rows, 2]`: all, and those with label 1."""
        kernels.count_labels(*self._rows, self.labels, into.view("<u8")[:, 0])

    def odds_without_own(self, clicks: Array, common: float, smoothing: float) -> Array:
        """The sum of the rows' log-odds of each example, without the clicks of the example itself.

        Args:
            clicks: Accesses of each row, and those with label 1: `[rows, 2]`.
            common: The share of accesses with label 1.
            smoothing: Each row has so many accesses of the common rate added.
        """
        out = np.zeros(len(self), dtype=np.float64)
        kernels.odds_without_own(*self._rows, self.labels, clicks, common, smoothing, out)
        return out


class AccessReader:
    """Reads the accesses of the examples of a part.

    Args:
        part: Where the examples are.

    Attributes:
        names: The names of the tables.
        starts: The first row of each table, and the end of the last.
        single_starts: The row of id 0 of each single column.
        lists: The name of each list column, and the number of its table.
        tables: The number of the table of each column, lists last.
        ids: How ids of single columns are stored.
    """

    def __init__(self, part: Part) -> None:
        self.part, schema = part, part.schema
        self.names = [table.name for table in schema.tables]
        sizes = [table.rows for table in schema.tables]
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        number = {name: k for k, name in enumerate(self.names)}
        singles = np.array([number[column.table] for column in schema.singles], dtype=np.int64)
        self.single_starts = self.starts[singles]
        self.lists = [(column.name, number[column.table]) for column in schema.lists]
        lists = np.array([table for _, table in self.lists], dtype=np.int64)
        self.tables = np.concatenate([singles, lists])
        self.ids = fixed_fields(schema)["ids"]

    @property
    def rows(self) -> int:
        """The rows of all tables."""
        return int(self.starts[-1])

    def table_of(self, rows: Array) -> Array:
        """The number of the table of each row."""
        return np.asarray(np.searchsorted(self.starts, rows, side="right") - 1)

    def read(self, numbers: Array) -> Accesses:
        """The accesses of some examples."""
        return Accesses(self, numbers)
