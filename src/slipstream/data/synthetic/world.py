"""Draws the inputs of built-in data, as raw values: what a log would hold, less the labels."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from slipstream.data.synthetic.bits import high32, key, low32, words
from slipstream.data.synthetic.drift import Drift
from slipstream.data.synthetic.powerlaw import PowerLaw
from slipstream.data.synthetic.shapes import ColumnShape, Shape, TableShape
from slipstream.errors import ConfigError

DENSE_VALUES = 1 << 16
MISSING_VALUE = 1  # the value that stands for a missing one, in tables that have it
FIRST_TIME = 1_500_000_000
ELEMENTS_AT_ONCE = 1 << 15
_MOST_THREADS = 16
_ROWS_ON_A_GPU = 1 << 20
_FAVOURITES = 8
R = TypeVar("R")


@dataclass(frozen=True)
class RawList:
    """A list column: `lengths[i]` values of row i of `values` count."""

    values: Tensor
    lengths: Tensor

    @property
    def mask(self) -> Tensor:
        """Which values count."""
        steps = torch.arange(self.values.shape[1], device=self.values.device)
        return steps < self.lengths[:, None]


@dataclass(frozen=True)
class RawInputs:
    """Some inputs before their values are ranked.

    Args:
        rows: The number of each input in the whole log.
        moment: How much of the log has passed at each input, from 0 to 2^32.
        columns: The value of each single column, or the lists of a list column.
        dense: For each dense value, counts from 0 to 2^16, or -1 where missing.
        times: Unix seconds, or None.
    """

    rows: Tensor
    moment: Tensor
    columns: dict[str, Tensor | RawList]
    dense: list[Tensor]
    times: Tensor | None


class World:
    """Everything that inputs are drawn from."""

    def __init__(self, shape: Shape, rows: int, seed: int, drift: Drift, device: str) -> None:
        self.shape, self.rows, self.seed, self.drift = shape, rows, seed, drift
        self.device = _device_named(device)
        self.laws = {t.name: PowerLaw.over(t.rows, t.exponent, self.device) for t in shape.tables}
        self.dense_laws = [
            PowerLaw.over(DENSE_VALUES, 0.9 + 0.7 * (number % 5) / 4, self.device)
            for number in range(shape.dense)
        ]
        self._tables = {table.name: table for table in shape.tables}
        self._widest = max(column.lengths[1] for column in shape.columns)

    def map(self, work: Callable[[Tensor], R], start: int, stop: int) -> Iterator[R]:
        """What `work` gives for the numbers of inputs start to stop, chunk after chunk.

        On a CPU every chunk is worked on by one thread from end to end. Were the operations shared
        out instead, as torch does by itself, their many short waits for each other would cost far
        more than they gain as soon as the machine has anything else to do.
        """
        on_cpu = self.device.type == "cpu"
        before = torch.get_num_threads()
        threads = min(before, _MOST_THREADS)
        # The more threads, the longer each operation must last, or they wait for the interpreter.
        at_once = max(1, ELEMENTS_AT_ONCE * threads // self._widest) if on_cpu else _ROWS_ON_A_GPU
        chunks = (
            torch.arange(first, min(first + at_once, stop), device=self.device)
            for first in range(start, stop, at_once)
        )
        if not on_cpu:
            yield from map(work, chunks)
            return
        alone = partial(torch.set_num_threads, 1)  # in the pool's threads, not in this one
        pool = ThreadPoolExecutor(threads, "slipstream-synth", alone)
        try:
            pending: deque[Future[R]] = deque()
            for rows in chunks:
                pending.append(pool.submit(work, rows))
                if len(pending) > 2 * threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(before)  # for threads that are yet to come

    def draw(self, rows: Tensor, *, ids_only: bool = False) -> RawInputs:
        """The inputs of these numbers.

        Args:
            rows: Numbers of inputs in the whole log, on the world's device.
            ids_only: Leave out dense values, for counting.
        """
        n = self.rows
        moment = (rows << 32) // n if n < 2**31 else (rows.double() / n * 2**32).long()
        times = FIRST_TIME + rows * self.shape.seconds // n if self.shape.seconds else None
        columns: dict[str, Tensor | RawList] = {}
        for column in self.shape.columns:
            columns[column.name] = self._column(column, rows, moment, times, columns)
        dense = [] if ids_only else [self._dense(j, rows) for j in range(self.shape.dense)]
        return RawInputs(rows, moment, columns, dense, times)

    def _column(
        self,
        column: ColumnShape,
        rows: Tensor,
        moment: Tensor,
        times: Tensor | None,
        drawn: dict[str, Tensor | RawList],
    ) -> Tensor | RawList:
        if column.clock:
            assert times is not None, "a shape with a clock column has times"
            return times // 3600 % 24
        if column.decided_by is not None:
            parent = drawn[column.decided_by]
            if isinstance(parent, RawList):
                return RawList(self._decided(column, parent.values), parent.lengths)
            return self._decided(column, parent)
        if column.kind == "single":
            return self._values(column, rows, moment, drawn)
        shortest, longest = column.lengths
        word = words(key(self.seed, "length", column.name), rows)
        lengths = shortest + (low32(word) * (longest - shortest + 1) >> 32)
        steps = torch.arange(longest, device=self.device)
        cells = (rows[:, None] * longest + steps).reshape(-1)
        owners = torch.arange(len(rows), device=self.device).repeat_interleave(longest)
        values = self._values(column, cells, moment, drawn, owners)
        return RawList(values.reshape(len(rows), longest), lengths)

    def _values(
        self,
        column: ColumnShape,
        cells: Tensor,
        moment: Tensor,
        drawn: dict[str, Tensor | RawList],
        owners: Tensor | None = None,
    ) -> Tensor:
        """One value for each cell; `owners` says which input a cell of a list belongs to."""
        word = words(key(self.seed, "value", column.name), cells)
        if column.favourites_of is not None:
            fan = drawn[column.favourites_of]
            assert isinstance(fan, Tensor), "favourites are those of a single column"
            choice = words(key(self.seed, "choice", column.name), cells)
            fan = fan if owners is None else fan.index_select(0, owners)
            favourite = fan * _FAVOURITES + (choice & (_FAVOURITES - 1))
            returns = ((choice >> 8) & 3) != 0  # three times out of four
            liked = words(key(self.seed, "favourite", column.table), favourite)
            word = torch.where(returns, liked, word)
        moments = moment if owners is None else moment.index_select(0, owners)
        return self._drifted(column, self.laws[column.table].draw(word), moments)

    def _drifted(self, column: ColumnShape, popularity: Tensor, moment: Tensor) -> Tensor:
        """The value that has this popularity rank at the moment."""
        if self.drift.popularity.kind == "none":
            return popularity
        table = self._tables[column.table]
        switches = words(key(self.seed, "popularity", table.name), popularity)
        version = self.drift.popularity.version(moment, switches)
        return (popularity + version * _stride(table)) % table.rows

    def _decided(self, column: ColumnShape, parents: Tensor) -> Tensor:
        word = words(key(self.seed, "decided", column.table), parents.reshape(-1))
        return self.laws[column.table].draw(word).reshape(parents.shape)

    def _dense(self, number: int, rows: Tensor) -> Tensor:
        word = words(key(self.seed, "dense", number), rows)
        value = self.dense_laws[number].draw(word)
        share = round((number * 7 % 10) / 20 * 2**32)  # missing in 0 to 45 % of the inputs
        present = high32(words(key(self.seed, "present", number), rows)) >= share
        return (value + 1) * present - 1


def _device_named(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError):
        raise ConfigError(f"There is no device {name!r} here. Use cpu, or cuda on a GPU.") from None
    return device


def _stride(table: TableShape) -> int:
    """How far the second set of popular values lies from the first."""
    return max(1, round(table.rows * 0.382))
