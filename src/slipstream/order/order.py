"""The order of examples: as they are, or shuffled by blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from slipstream.arrays import Array
from slipstream.errors import ConfigError
from slipstream.order.batching import Chunk, Cut, Numbers, into_batches
from slipstream.order.mixing import ROUNDS, mixed, permutation

RUN = 8
_CHUNK = 1 << 17


@dataclass(frozen=True)
class InputOrder:
    """The sequence of examples of a run: a pure function of these arguments.

    Position p is the p-th example to be consumed, over all epochs and by all ranks together, so a
    position identifies the progress of a run, whatever the batch or world size.

    Shuffling is by blocks, which read well from disk: blocks of consecutive examples are put in
    random order, and each `mixed` blocks in that order are mixed with each other, in short runs of
    consecutive examples, which are several times cheaper to read than single ones.

    Args:
        examples: Examples in the part.
        seed: Shuffles the examples, differently each epoch; None keeps their order.
        epochs: How often every example is trained.
        start: The first example of the part that is used; older ones are left out.
        stop: The example before which the used ones end; None uses all to the end.
        block: Consecutive examples that stay close together, a multiple of `run`.
        mixed: Blocks that are mixed with each other.
        run: Consecutive examples that stay together; 1 mixes every example.

    Example:
        >>> InputOrder(5, epochs=2).example_numbers(3, 7).tolist()
        [3, 4, 0, 1]
    """

    examples: int
    seed: int | None = None
    epochs: int = 1
    start: int = 0
    stop: int | None = None
    block: int = 512
    mixed: int = 64
    run: int = RUN

    def __post_init__(self) -> None:
        least = {"examples": 0, "epochs": 0, "start": 0, "block": 1, "mixed": 1, "run": 1}
        for name, bound in least.items():
            value = getattr(self, name)
            if value < bound:
                raise ConfigError(f"{name} is {value}; it must be at least {bound}.")
        if self.stop is not None and self.stop > self.examples:
            raise ConfigError(f"stop is {self.stop:,}, but there are {self.examples:,} examples.")
        if self.stop is not None and self.start >= self.stop:
            raise ConfigError(
                f"start is {self.start:,} and stop is {self.stop:,}; start must be below stop."
            )
        if self.start and self.start >= self.examples:
            raise ConfigError(f"start is {self.start:,}, but there are {self.examples:,} examples.")
        if self.block % self.run:
            raise ConfigError(f"block is {self.block}; it must be a multiple of run, {self.run}.")

    def __len__(self) -> int:
        """Positions in the whole sequence."""
        return self.per_epoch * self.epochs

    @cached_property
    def per_epoch(self) -> int:
        """Examples in one epoch."""
        return (self.examples if self.stop is None else self.stop) - self.start

    def example_numbers(self, start: int, stop: int) -> Array:
        """The examples at positions start to stop, as int64."""
        self._check(start, stop)
        pieces = []
        while start < stop:
            epoch, first = divmod(start, self.per_epoch)
            last = min(first + stop - start, self.per_epoch)
            pieces.append(self._within_epoch(epoch, first, last))
            start += last - first
        return _join(pieces) if pieces else np.empty(0, dtype=np.int64)

    def chunks(self, start: int = 0, step: int = 1) -> Iterator[Chunk | None]:
        """The rest of the sequence from a position on, piece by piece, for steps of any size."""
        del step
        self._check(min(start, len(self)), len(self))
        while start < len(self):
            epoch, first = divmod(start, self.per_epoch)
            last = min(first - first % _CHUNK + _CHUNK, self.per_epoch)
            numbers: Numbers = range(self.start + first, self.start + last)
            if self.seed is not None:
                numbers = self._within_epoch(epoch, first, last)
            yield Chunk(range(start, start + last - first), numbers)
            start += last - first

    def cuts(
        self, position: int, batch_size: int, *, rank: int = 0, world_size: int = 1
    ) -> Iterator[Cut | None]:
        """The batches of one rank from a position on."""
        return into_batches(self.chunks(position), batch_size, rank=rank, world_size=world_size)

    def arguments(self) -> dict[str, Any]:
        """The arguments that define the sequence, and the number of epochs."""
        return asdict(self)

    def pending_decision(self, position: int) -> int | None:
        """None, because no loss changes this order."""
        del position
        return None

    def report_loss(self, number: int, loss: float) -> None:
        """Ignore the loss: it does not change this order."""

    def _check(self, start: int, stop: int) -> None:
        if not 0 <= start <= stop <= len(self):
            raise ConfigError(
                f"Positions {start} to {stop} do not lie within this order of {len(self)} examples."
            )

    def _within_epoch(self, epoch: int, first: int, last: int) -> Array:
        if self.seed is None:
            return np.arange(self.start + first, self.start + last)
        _, starts = self._shuffled_blocks(epoch)
        group = int(np.searchsorted(starts, first, side="right")) - 1
        pieces = []
        while first < last:
            offset = first - int(starts[group])
            pieces.append(self._mixed_group(epoch, group)[offset : offset + last - first])
            first += len(pieces[-1])
            group += 1
        return _join(pieces) + self.start if self.start else _join(pieces)

    def _shuffled_blocks(self, epoch: int) -> tuple[Array, Array]:
        """The blocks of an epoch in random order, and the position at which each group begins."""
        known = self._cache.get("blocks", (None, None))
        if known[0] != epoch:
            count = -(-self.per_epoch // self.block)
            blocks = self._permutation(count, epoch, 0).astype(np.int64)
            sizes = np.minimum(self.per_epoch - blocks * self.block, self.block)
            starts = np.concatenate([[0], np.cumsum(sizes)])[: -1 : self.mixed]
            known = self._cache["blocks"] = epoch, (blocks, starts)
        return known[1]

    def _mixed_group(self, epoch: int, group: int) -> Array:
        """The examples of one group of blocks, mixed, counted from `start`."""
        known = self._cache.get("group", (None, None))
        if known[0] != (epoch, group):
            blocks, _ = self._shuffled_blocks(epoch)
            firsts = blocks[group * self.mixed : (group + 1) * self.mixed] * self.block
            inside = self._permutation(len(firsts) * (self.block // self.run), epoch, group + 1)
            numbers = mixed(firsts, inside, self.block, self.run)
            if firsts.max() + self.block > self.per_epoch:  # the last block is short
                numbers = numbers[numbers < self.per_epoch]
            numbers.flags.writeable = False  # it is returned again
            known = self._cache["group"] = (epoch, group), numbers
        return known[1]

    @cached_property
    def _cache(self) -> dict[str, Any]:
        """The latest epoch and group; each key is stored with its value, for other threads."""
        return {}

    def _permutation(self, n: int, epoch: int, stream: int) -> Array:
        """The numbers 0 to n in random order, the same for all time."""
        assert self.seed is not None, "only shuffled orders permute"
        digest = hashlib.shake_128(f"{self.seed}/{epoch}/{stream}".encode()).digest(16 * ROUNDS)
        return permutation(n, np.frombuffer(digest, dtype="<u8"))


def example_number(position: int | str, examples: int) -> int:
    """The number of an example, from itself or a share of all examples.

    Example:
        >>> example_number("25%", 1000), example_number(3, 1000)
        (250, 3)
    """
    if isinstance(position, int):
        return position
    return round(float(position.rstrip("% ")) * examples / 100)


def _join(pieces: list[Array]) -> Array:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
