"""The examples that each step has trained and skipped: enough to plan the steps again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from slipstream.arrays import Array
from slipstream.order import Chunk, Cut, InputOrder
from slipstream.skip.bits import bits_of, set_bits


class SkipHistory:
    """The steps of a run so far, as an order that has their batches again.

    A placement that learns from the batches needs the examples of earlier steps, also those whose
    decisions are forgotten. It takes a bit for each example, and 8 bytes for each step.

    Args:
        base: The order of all examples.
        decision: The number of a decision for the batches: any that is still known.

    Example:
        >>> history = SkipHistory(InputOrder(6))
        >>> history.add(0, 3, np.array([1]))
        >>> history.add(3, 6, np.array([3, 5]))
        >>> [cut.numbers.tolist() for cut in history.cuts(0, 2)]
        [[0, 2], [4]]
    """

    def __init__(self, base: InputOrder, decision: int = 0) -> None:
        self._base, self.decision = base, decision
        self._skipped = np.zeros(-(-len(base) // 8), dtype=np.uint8)  # a bit for each position
        self._ends: list[int] = []

    def add(self, start: int, stop: int, skipped: Array) -> None:
        """Add a step.

        Args:
            start: Its first position.
            stop: The position behind its last.
            skipped: The examples in between that it skipped.
        """
        self._ends.append(stop)
        if len(skipped):
            among = np.isin(self._base.numbers(start, stop), skipped)
            set_bits(self._skipped, start + np.flatnonzero(among))

    @property
    def rows(self) -> int:
        """Examples in the part."""
        return self._base.rows

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def arguments(self) -> dict[str, Any]:
        """The arguments that determine the sequence, and the number of epochs."""
        return self._base.arguments()

    def pending_decision(self, position: int) -> int | None:
        """Nothing is left to decide."""
        del position
        return None

    def report_loss(self, number: int, loss: float) -> None:
        """No decision needs a loss."""

    def chunks(self, start: int = 0, step: int = 1) -> Iterator[Chunk | None]:
        """All examples of the steps, skipped or not."""
        del step
        yield Chunk(range(start, len(self)), self._base.numbers(start, len(self)))

    def cuts(
        self, position: int, batch_size: int, *, rank: int = 0, world_size: int = 1
    ) -> Iterator[Cut | None]:
        """The batches of the steps from a position on."""
        del batch_size
        assert (rank, world_size) == (0, 1), "steps are those of one process"
        for stop in self._ends:
            if stop > position:
                numbers = self._base.numbers(position, stop)
                skipped = bits_of(self._skipped, np.arange(position, stop))
                yield Cut(numbers[~skipped], stop, numbers[skipped], decision=self.decision)
                position = stop

    def state_dict(self) -> dict[str, Array]:
        """The steps."""
        return {"ends": np.array(self._ends, dtype=np.int64), "skipped": self._skipped}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Continue with saved steps, also of a run with another number of epochs."""
        self._ends = state["ends"].tolist()
        known = min(len(self._skipped), len(state["skipped"]))
        self._skipped[:known] = state["skipped"][:known]
