"""Which inputs every step has trained and skipped: enough to plan all of them again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from slipstream.data.inputs import Array
from slipstream.order import Chunk, Cut, InputOrder
from slipstream.skip.bits import bits_of, set_bits


class Passed:
    """The steps of a run so far, as an order that gives their batches again.

    Decisions that hold no more are forgotten, and so is why inputs were skipped; a placement that
    learns from the batches needs only to know which ones were. It takes a bit for each input, and
    8 bytes for each step.

    Args:
        base: The order of all inputs.
        decision: The number of a decision for the batches: any that is still known.

    Example:
        >>> passed = Passed(InputOrder(6))
        >>> passed.add(0, 3, np.array([1]))
        >>> passed.add(3, 6, np.array([3, 5]))
        >>> [cut.numbers.tolist() for cut in passed.cuts(0, 2)]
        [[0, 2], [4]]
    """

    def __init__(self, base: InputOrder, decision: int = 0) -> None:
        self._base, self.decision = base, decision
        self._skipped = np.zeros(-(-len(base) // 8), dtype=np.uint8)  # a bit for each position
        self._ends: list[int] = []

    def add(self, start: int, stop: int, skipped: Array) -> None:
        """Take note of a step.

        Args:
            start: Its first position.
            stop: The one behind its last.
            skipped: The inputs in between that it skipped.
        """
        self._ends.append(stop)
        if len(skipped):
            here = np.isin(self._base.numbers(start, stop), skipped)
            set_bits(self._skipped, start + np.flatnonzero(here))

    @property
    def rows(self) -> int:
        """Inputs in the part."""
        return self._base.rows

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def arguments(self) -> dict[str, Any]:
        """What makes it another sequence if it differs, and the number of epochs."""
        return self._base.arguments()

    def asks(self, position: int) -> int | None:
        """Nothing is left to decide."""
        del position
        return None

    def tell(self, number: int, loss: float) -> None:
        """Nothing is asked for."""

    def chunks(self, start: int = 0, step: int = 1) -> Iterator[Chunk | None]:
        """All inputs of the steps, skipped or not."""
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
        """Go on with those of another one, of as many epochs or another number of them."""
        self._ends = state["ends"].tolist()
        known = min(len(self._skipped), len(state["skipped"]))
        self._skipped[:known] = state["skipped"][:known]
