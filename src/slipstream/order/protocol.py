"""The interface of an order of examples, for the loader and the training loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from slipstream.order.batching import Chunk, Cut


class Order(Protocol):
    """A sequence of examples: a pure function of its arguments and of the reported losses."""

    @property
    def rows(self) -> int:
        """Examples in the part."""

    def __len__(self) -> int:
        """Positions in the whole sequence."""

    def chunks(self, start: int = 0, step: int = 1) -> Iterator[Chunk | None]:
        """The sequence from a position on, in chunks; None where it is not decided.

        Args:
            start: The position.
            step: Examples of a step, on all ranks together.
        """

    def cuts(
        self, position: int, batch_size: int, *, rank: int = 0, world_size: int = 1
    ) -> Iterator[Cut | None]:
        """The batches of one rank from a position on; None where the next one is not decided."""

    def arguments(self) -> dict[str, Any]:
        """The arguments that define the sequence, and the number of epochs."""

    def pending_decision(self, position: int) -> int | None:
        """The number of the decision that needs the loss at a position; None if there is none."""

    def report_loss(self, number: int, loss: float) -> None:
        """Receive the loss of the validation part for a decision; numbers rise."""
