"""What a rule may know of the run it is for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slipstream.config import Skip
from slipstream.data.inputs import Array
from slipstream.models.inputs import LINEAR
from slipstream.order import InputOrder
from slipstream.skip.accesses import Reader
from slipstream.skip.hot import Hot
from slipstream.tables.spec import Layout
from slipstream.tables.tables import Embeddings

WARMUP = 0.1
_ROOM = 2  # what a batch may use up, beside what it does on average
_MOST = 0.99


def used_up(trained: float, share: float) -> float:
    """Inputs that are used up until so many are trained, where a share of them is skipped."""
    return trained / (1 - min(share, _MOST))


@dataclass(frozen=True)
class Context:
    """The run that a rule is for.

    Args:
        keys: The section `skip` of the configuration.
        reader: Reads the accesses of inputs; knows the tables of the data set.
        base: The order of all inputs, nothing rearranged.
        layout: The model's tables.
        model: The model's name: some published values depend on it.
        batch_size: Inputs of a step.
        seed: Of the run.
        tables: The rows as they are now; a rule must settle them before it reads any.
        hot: The hot rows; None for a rule that does not ask for them.
        hot_last: Whether all hot inputs of an epoch come behind its cold ones.
    """

    keys: Skip
    reader: Reader
    base: InputOrder
    layout: Layout
    model: str
    batch_size: int
    seed: int
    tables: Embeddings
    hot: Hot | None = None
    hot_last: bool = False

    @property
    def hot_rows(self) -> Hot:
        """The hot rows, for a rule that asks for them."""
        assert self.hot is not None, "the rule says that it needs them"
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
    def late(self) -> int:
        """Inputs that are trained from a decision to its effect."""
        return (self.keys.lag or 0) * self.batch_size

    @cached_property
    def most(self) -> int:
        """The most inputs that a batch may use up, skipped ones counted.

        So many that the batches of a lag use up an interval. A decision then holds for about an
        interval, however many inputs it skips: there is a step behind which the next is taken, and
        the next takes effect. But always enough to fill batches that skip as much as is wanted.
        """
        wanted = max(self.keys.shares or (self.keys.target,))
        full = used_up(_ROOM * self.batch_size, wanted)
        return max(math.ceil(self.every / (1 + (self.keys.lag or 0))), math.ceil(full))

    @property
    def repeats(self) -> bool:
        """Whether it is decided more than once, where a rule does not say otherwise."""
        return self.keys.repeat is not False

    def passes(self, before: int, position: int) -> bool:
        """Whether a step has passed a position at which a decision is taken."""
        if position < self.first or position >= len(self.base):
            return False
        if before < self.first:
            return True
        now, then = ((at - self.first) // self.every for at in (position, before))
        return self.repeats and now > then

    def places(self, rows: Array) -> list[tuple[int, Array, Array]]:
        """Where rows of the data set are in the model.

        Args:
            rows: Rows, numbered through all tables of the data set; rising.

        Returns:
            For each of the model's tables that has some of them: its group, where they are among
            `rows`, and their places in the group.
        """
        found = []
        for number, group in enumerate(self.layout.groups):
            for table in group.tables:
                name = table.name.removesuffix(LINEAR)
                at = self.reader.names.index(name)
                first, last = self.reader.starts[at : at + 2]
                (mine,) = np.nonzero((rows >= first) & (rows < last))
                if len(mine):
                    found.append((number, mine, rows[mine] - first + group.start(table.name)))
        return found

    def masks(self, still: Array) -> Sequence[Array]:
        """For each group whether its rows move, given whether rows of the data set are still."""
        moves = [np.ones(group.rows, dtype=bool) for group in self.layout.groups]
        (rows,) = np.nonzero(still)
        for number, _, places in self.places(rows):
            moves[number][places] = False
        return moves
