"""What a rule may know of the run it is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slipstream.config import Skip
from slipstream.data.inputs import Array
from slipstream.embedding.spec import Layout
from slipstream.embedding.tables import Embeddings
from slipstream.models.inputs import LINEAR
from slipstream.ordering import InputOrder
from slipstream.skipping.accesses import Reader
from slipstream.skipping.hot import Hot

WARMUP = 0.1


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
