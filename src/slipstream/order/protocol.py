"""What an order of inputs gives to those who read them, and asks of those who train on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from slipstream.order.batching import Chunk, Cut


class Order(Protocol):
    """A sequence of inputs: a pure function of its arguments and of what it was told so far."""

    @property
    def rows(self) -> int:
        """Inputs in the part."""

    def __len__(self) -> int:
        """Positions in the whole sequence."""

    def chunks(self, start: int = 0, step: int = 1) -> Iterator[Chunk | None]:
        """The sequence from a position on, piece by piece; None where it is not decided.

        Args:
            start: The position.
            step: Inputs of a step on all ranks together.
        """

    def cuts(
        self, position: int, batch_size: int, *, rank: int = 0, world_size: int = 1
    ) -> Iterator[Cut | None]:
        """The batches of one rank from a position on; None where the next one is not decided."""

    def arguments(self) -> dict[str, Any]:
        """What makes it another sequence if it differs, and the number of epochs."""

    def asks(self, position: int) -> int | None:
        """The number of the decision that needs the loss at a position; None if none does."""

    def tell(self, number: int, loss: float) -> None:
        """The loss of the validation part for a decision of that number; numbers rise."""
