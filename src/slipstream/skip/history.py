"""The examples that each step has trained and skipped: enough to plan the steps again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from slipstream.arrays import Array
from slipstream.order import Cut, InputOrder
from slipstream.skip.order import RebatchedOrder


class SkipHistory(RebatchedOrder):
    """The steps of a run so far, as an order that has their batches again.

    A placement that learns from the batches needs the examples of earlier steps, also those whose
    decisions are forgotten. It takes a byte for each example, and 8 bytes for each step.

    Example:
        >>> history = SkipHistory(InputOrder(6))
        >>> history.add(0, 3, np.array([1]))
        >>> history.add(3, 6, np.array([3, 5]))
        >>> [cut.example_numbers.tolist() for cut in history.cuts(0, 2)]
        [[0, 2], [4]]
    """

    def __init__(self, base: InputOrder) -> None:
        super().__init__(base)
        self._input_order = base
        self._skipped = np.zeros(len(base), dtype=bool)  # for each position
        self._ends: list[int] = []

    def add(self, start: int, stop: int, skipped: Array) -> None:
        """Add a step between two positions, and the examples in between that it skipped."""
        self._ends.append(stop)
        self._skipped[start:stop] = np.isin(self._input_order.example_numbers(start, stop), skipped)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def cuts(
        self, position: int, batch_size: int, *, rank: int = 0, world_size: int = 1
    ) -> Iterator[Cut | None]:
        """The batches of the steps from a position on."""
        del batch_size
        assert (rank, world_size) == (0, 1), "steps are those of one process"
        for stop in self._ends:
            if stop > position:
                numbers = self._input_order.example_numbers(position, stop)
                skipped = self._skipped[position:stop]
                yield Cut(numbers[~skipped], stop, numbers[skipped])
                position = stop

    def state_dict(self) -> dict[str, Array]:
        """The steps."""
        skipped = np.packbits(self._skipped[: len(self)])
        return {"ends": np.array(self._ends, dtype=np.int64), "skipped": skipped}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Continue with saved steps, also of a run with another number of epochs."""
        self._ends = state["ends"].tolist()
        done = len(self)
        self._skipped[:done] = np.unpackbits(state["skipped"], count=done)
