"""The rows that inputs access, read from a part and counted or scored row by row."""

from __future__ import annotations

import numpy as np

from slipstream.data.dataset import Part
from slipstream.data.gather import Gather
from slipstream.data.inputs import Array
from slipstream.data.layout import fixed_fields
from slipstream.skip import kernels


class Accesses:
    """Some inputs, each with its label and the rows that it accesses.

    Rows are numbered through all tables of the data set, whatever the model makes of them. Each
    array is read when it is first asked for: some rules go by labels alone, or by nothing.

    Args:
        reader: Knows the tables.
        numbers: The inputs.
    """

    def __init__(self, reader: Reader, numbers: Array) -> None:
        self._reader, self.numbers = reader, numbers
        self.starts, self.tables = reader.single_starts, reader.tables
        # Kept by hand: some versions of Python have threads wait for each other's cached_property.
        self._how: Gather | None = None
        self._ids: Array | None = None
        self._labels: Array | None = None
        self._lists: tuple[Array, Array] | None = None
        self._known: dict[int, tuple[Array, Array]] = {}

    @property
    def _gather(self) -> Gather:
        if self._how is None:
            self._how = Gather.of(self._reader.part, self.numbers)
        return self._how

    @property
    def labels(self) -> Array:
        """The label of each input, float32."""
        if self._labels is None:
            self._labels = np.empty(len(self), dtype=np.float32)
            self._gather.fixed("labels", self._labels)
        return self._labels

    @property
    def ids(self) -> Array:
        """The ids of single columns, `[inputs, columns]`; the rows of id 0 are `starts`."""
        if self._ids is None:
            field = self._reader.ids
            self._ids = np.empty((len(self), *field.shape), dtype=field.dtype)
            self._gather.fixed("ids", self._ids)
        return self._ids

    @property
    def lists(self) -> tuple[Array, Array]:
        """The rows of list columns, one column after the other, and where the lists begin."""
        if self._lists is None:
            self._lists = self._read_lists()
        return self._lists

    def _read_lists(self) -> tuple[Array, Array]:
        lists, n = self._reader.lists, len(self)
        values, offsets, end = [np.empty(0, np.int64)], np.zeros((len(lists), n + 1), int), 0
        for place, (name, table) in enumerate(lists):
            ragged = self._gather.lists(name)
            values.append(ragged.values.astype(np.int64) + self._reader.starts[table])
            offsets[place] = ragged.offsets + end
            end += len(ragged.values)
        return np.concatenate(values), offsets

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def _rows(self) -> tuple[Array, Array, Array, Array]:
        return self.ids, self.starts, *self.lists

    def rows(self) -> Array:
        """The rows of all accesses."""
        return np.concatenate([(self.ids + self.starts).reshape(-1), self.lists[0]])

    def sums(self, of_rows: Array) -> Array:
        """For each input the sum over its rows; of numbers that stay as they are.

        Rules ask for the same sums when they judge an input and when they correct its log-odds.
        """
        if id(of_rows) not in self._known:
            out = np.zeros(len(self), dtype=np.float64)
            kernels.sums(*self._rows, of_rows, out)
            out.flags.writeable = False
            self._known[id(of_rows)] = of_rows, out  # kept, so that no other array has its id
        return self._known[id(of_rows)][1]

    def largest(self, of_rows: Array) -> Array:
        """For each input the largest over its rows; minus infinity without any."""
        out = np.full(len(self), -np.inf, dtype=np.float32)
        kernels.largest(*self._rows, of_rows, out)
        return out

    def foremost(self, of_rows: Array) -> Array:
        """For each input the number of the table with the largest of its rows; -1 without any."""
        out = np.full(len(self), -1, dtype=np.int64)
        kernels.foremost(*self._rows, self.tables, of_rows, out)
        return out

    def enough(self, of_rows: Array, in_table: int, in_all: int) -> Array:
        """For each input the least bound below which enough of it lies.

        Args:
            of_rows: A number for each row.
            in_table: So many of the rows that it accesses in a table must lie below the bound for
                the table to do so; of fewer, all.
            in_all: So many of its tables must; of fewer, all.
        """
        out = np.full(len(self), -np.inf, dtype=np.float32)
        kernels.enough(*self._rows, self.tables, of_rows, in_table, in_all, out)
        return out

    def count(self, into: Array) -> None:
        """Add 1 to each row for each access."""
        kernels.count(self.ids, self.starts, self.lists[0], into)

    def count_labels(self, into: Array) -> None:
        """Add accesses to the rows of `into`, uint32 `[rows, 2]`: all, and those with label 1."""
        kernels.count_labels(*self._rows, self.labels, into.view("<u8")[:, 0])

    def odds_without_own(self, clicks: Array, common: float, smoothing: float) -> Array:
        """For each input the sum of its rows' log-odds, where it was counted once and is not to be.

        Args:
            clicks: Accesses of each row, and those with label 1: `[rows, 2]`.
            common: The share of accesses with label 1.
            smoothing: Each row has so many accesses of the common rate added.
        """
        out = np.zeros(len(self), dtype=np.float64)
        kernels.odds_without_own(*self._rows, self.labels, clicks, common, smoothing, out)
        return out


class Reader:
    """Reads the accesses of inputs of a part.

    Args:
        part: Where the inputs are.

    Attributes:
        names: Of the tables.
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
        singles = np.array([number[c.table] for c in schema.singles], dtype=np.int64)
        self.single_starts = self.starts[singles]
        self.lists = [(c.name, number[c.table]) for c in schema.lists]
        lists = np.array([k for _, k in self.lists], dtype=np.int64)
        self.tables = np.concatenate([singles, lists])
        self.ids = fixed_fields(schema)["ids"]

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return int(self.starts[-1])

    def table_of(self, rows: Array) -> Array:
        """The number of the table that each row is in."""
        return np.asarray(np.searchsorted(self.starts, rows, side="right") - 1)

    def labels(self, numbers: Array) -> Array:
        """The labels of some inputs."""
        return Accesses(self, numbers).labels

    def read(self, numbers: Array) -> Accesses:
        """The accesses of some inputs."""
        return Accesses(self, numbers)
