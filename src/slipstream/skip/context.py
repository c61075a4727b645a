"""What a skip rule may know of the run that it is for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slipstream.arrays import Array
from slipstream.config.sections import SkipSettings
from slipstream.models.inputs import LINEAR
from slipstream.order import InputOrder, Order
from slipstream.skip.accesses import AccessReader
from slipstream.skip.hot import HotRows
from slipstream.tables.spec import Layout
from slipstream.tables.tables import Embeddings

WARMUP = 0.1  # of an epoch
_ROOM = 2  # times the average span of a batch
_MOST = 0.99


def order_span(trained: float, share: float) -> float:
    """Examples of the order, trained and skipped, of which so many are trained."""
    return trained / (1 - min(share, _MOST))


@dataclass(frozen=True)
class RunContext:
    """The run that a rule is for.

    Args:
        keys: The section `skip` of the configuration.
        reader: Reads the accesses of examples; knows the tables of the data set.
        base: The order of all examples, before anything is rearranged.
        order: The order in which they come.
        layout: The model's tables.
        model: The model's name: some published values depend on it.
        batch_size: Examples of a step.
        seed: The seed of the run.
        tables: The rows as they are now.
        hot: The hot rows, if the rule uses them.
        hot_last: Whether all hot examples of an epoch come behind its cold ones.
    """

    keys: SkipSettings
    reader: AccessReader
    base: InputOrder
    order: Order
    layout: Layout
    model: str
    batch_size: int
    seed: int
    tables: Embeddings
    hot: HotRows | None = None
    hot_last: bool = False

    @property
    def hot_rows(self) -> HotRows:
        """The hot rows, for a rule that uses them."""
        assert self.hot is not None, "its options are not HotOptions"
        return self.hot

    @cached_property
    def first(self) -> int:
        """The position of the first decision."""
        warmup = WARMUP if self.keys.warmup is None else self.keys.warmup
        return max(1, round(warmup * self.base.per_epoch))

    @cached_property
    def every(self) -> int:
        """Positions from one decision to the next."""
        return max(1, round(self.keys.interval * self.base.per_epoch))

    @property
    def lag_examples(self) -> int:
        """Examples that are trained from a decision to its effect."""
        return (self.keys.lag or 0) * self.batch_size

    @property
    def targets(self) -> tuple[float, ...]:
        """The share to skip of each decision in turn; the last one stays."""
        return self.keys.target_schedule or (self.keys.target,)

    @property
    def max_batch_span(self) -> int:
        """The most examples of the order that a batch may have, trained and skipped.

        So many that the batches of a lag span an interval: a decision then holds for about an
        interval, whatever it skips. But always enough to fill batches that skip the target.
        """
        full = order_span(_ROOM * self.batch_size, max(self.targets))
        return max(math.ceil(self.every / (1 + (self.keys.lag or 0))), math.ceil(full))

    def places(self, rows: Array) -> list[tuple[int, Array, Array]]:
        """Where some rows of the data set are in the model; they are in rising order.

        Returns:
            For each of the model's tables that has some of them: its group, their places among
            `rows`, and their places in the group.
        """
        places = []
        for number, group in enumerate(self.layout.groups):
            for table in group.tables:
                at = self.reader.names.index(table.name.removesuffix(LINEAR))
                first, last = self.reader.starts[at : at + 2]
                (among,) = np.nonzero((rows >= first) & (rows < last))
                if len(among):
                    places.append((number, among, rows[among] - first + group.start(table.name)))
        return places

    def moving(self, frozen: Array) -> Sequence[Array]:
        """Whether each row of each group moves, from whether rows of the data set are frozen."""
        moves = [np.ones(group.rows, dtype=bool) for group in self.layout.groups]
        for number, _, places in self.places(np.flatnonzero(frozen)):
            moves[number][places] = False
        return moves
