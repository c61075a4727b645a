"""A batch of examples as tensors, and the memory it is read into."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.arrays import Array
from slipstream.data.copying import count_up
from slipstream.data.dataset import Part
from slipstream.data.gather import PAGE, Gather, page_start
from slipstream.data.inputs import Ragged
from slipstream.data.layout import Field, fixed_fields
from slipstream.order import Cut, joined
from slipstream.quick import quick

_TORCH = {"f4": torch.float32, "i4": torch.int32, "i8": torch.int64}
_ALIGNMENT = 64
_INPUTS_AT_ONCE = 1 << 15


@dataclass(frozen=True)
class ListBatch:
    """The lists of one column: list i is `values[offsets[i]:offsets[i + 1]]`, padding is empty."""

    values: Tensor
    offsets: Tensor


OnRead = Callable[["ReadBlock"], Any]
"""A function of a block that was just read, called by the thread that has read it."""


@dataclass(frozen=True, eq=False)
class ReadBlock:
    """Batches that were read at once and lie side by side in the same arrays.

    Args:
        tensors: Numbers, labels, weights, dense values and ids, each `[batches, capacity, ...]`.
        inputs: How many examples there are: only the last batch may be short.
        batches: How many batches.
        seen: The result of `on_read`; None without it.
    """

    tensors: dict[str, Tensor]
    inputs: int
    batches: int
    seen: Any = None

    def some(self, first: int, count: int) -> ReadBlock:
        """The block of `count` of the batches, without the result of `on_read`."""
        tensors = {name: tensor[first : first + count] for name, tensor in self.tensors.items()}
        capacity = self.tensors["example_numbers"].shape[1]
        inputs = self.inputs - first * capacity
        return ReadBlock(tensors, min(max(inputs, 0), count * capacity), count)


@dataclass(frozen=True)
class Batch:
    """Up to `capacity` examples; the places after the first `n_valid` are padding.

    Args:
        example_numbers: The number of each example in its part; -1 in padding.
        labels: float32 `[capacity]`; 0 in padding.
        weights: float32 `[capacity]`; 1 unless the data set has weights, 0 in padding.
        dense: float32 `[capacity, dense values]`; 0 in padding.
        ids: int32 or int64 `[capacity, single columns]`; 0 in padding.
        n_valid: How many examples there are.
        next_position: The position in the order at which the next batch begins.
        lists: The list columns by name; padding is empty lists.
        times: int64 `[capacity]`, or None; 0 in padding.
        logit_offset: float32 `[capacity]`, added to each logit in the loss, or None; 0 in padding.
        skipped: The numbers of the examples just before or between these that are not trained;
            None without skipping.
        decision: The number of the decision by which they were skipped.
        read_block: The batches that were read at once with it; None if it was not read.
        place: Its position among them.
    """

    example_numbers: Tensor
    labels: Tensor
    weights: Tensor
    dense: Tensor
    ids: Tensor
    n_valid: int
    next_position: int
    times: Tensor | None = None
    lists: dict[str, ListBatch] = field(default_factory=dict)
    logit_offset: Tensor | None = None
    skipped: Array | None = None
    decision: int = 0
    read_block: ReadBlock | None = None
    place: int = 0

    @property
    def capacity(self) -> int:
        """Examples that fit."""
        return self.labels.shape[0]

    def to(self, device: str | torch.device, non_blocking: bool = False) -> Batch:
        """The batch on another device."""

        def move(tensor: Tensor) -> Tensor:
            return tensor.to(device, non_blocking=non_blocking)

        values = {f.name: getattr(self, f.name) for f in fields(self)}
        moved = {name: move(value) for name, value in values.items() if torch.is_tensor(value)}
        lists = {
            name: ListBatch(move(column.values), move(column.offsets))
            for name, column in self.lists.items()
        }
        return replace(self, **moved, lists=lists, read_block=None)


class BatchReader:
    """Reads batches of one capacity from a part, into memory that is used again when it is free.

    Small batches are read several at a time, side by side in the same arrays: `at_once` of them,
    by default as many as suits the capacity. `on_read` is called with every block that was read.
    """

    def __init__(
        self,
        part: Part,
        capacity: int,
        pin_memory: bool = False,
        at_once: int | None = None,
        on_read: OnRead | None = None,
    ) -> None:
        self._on_read = on_read
        self.part, self.capacity, self.pin_memory = part, capacity, pin_memory
        self.at_once = at_once or max(1, _INPUTS_AT_ONCE // capacity)
        stored = fixed_fields(part.schema)
        always = {"example_numbers": Field(np.dtype("<i8")), "weights": Field(np.dtype("<f4"))}
        self._fields = {**always, **stored}
        self._stored = list(stored)
        self._starts: dict[str, int] = {}
        end = 0
        for name, f in self._fields.items():
            self._starts[name] = end
            end += -(-f.bytes_per_input * capacity * self.at_once // _ALIGNMENT) * _ALIGNMENT
        self._kinds = {_TORCH[f.dtype.str[1:]] for f in self._fields.values()}
        self._memory = _Memory(end, pin_memory)

    def read(self, cuts: Sequence[Cut]) -> list[Batch]:
        """Read the examples of up to `at_once` cuts as batches; only the last may be short."""
        n, padded = sum(len(cut.example_numbers) for cut in cuts), len(cuts) * self.capacity
        whole, arrays = self._carved(len(cuts))
        gather = self._gather(cuts, arrays["example_numbers"][:n])
        for name, array in arrays.items():
            if name in self._stored:
                gather.fixed(name, array[:n])
            elif name == "weights":
                array[:n] = 1
            if n < padded:
                array[n:] = -1 if name == "example_numbers" else 0
        read_block = ReadBlock(whole, n, len(cuts))
        if self._on_read is not None:
            read_block = replace(read_block, seen=self._on_read(read_block))
        tensors = {name: tensor.unbind() for name, tensor in whole.items()}
        lists = {c.name: gather.lists(c.name) for c in self.part.schema.lists}
        batches = []
        for number, cut in enumerate(cuts):
            start, stop = number * self.capacity, (number + 1) * self.capacity
            batches.append(
                quick(
                    Batch,
                    **{name: some[number] for name, some in tensors.items()},
                    lists={k: self._list(v, start, min(n, stop)) for k, v in lists.items()},
                    n_valid=len(cut.example_numbers),
                    next_position=cut.next_position,
                    logit_offset=self._offset(cut),
                    skipped=cut.skipped,
                    decision=cut.decision,
                    read_block=read_block,
                    place=number,
                )
            )
        return batches

    def reserve(self, reads: int) -> None:
        """Allocate page-locked memory for so many reads, before it is needed."""
        self._memory.reserve(reads)

    def _gather(self, cuts: Sequence[Cut], numbers: Array) -> Gather:
        """How to read the examples of cuts; writes their numbers one behind the other."""
        whole = joined([cut.example_numbers for cut in cuts], out=numbers)
        if isinstance(whole, range):
            count_up(numbers, whole.start)
            return Gather.between(self.part, whole.start, whole.stop)
        return Gather.of(self.part, numbers)

    def _carved(self, batches: int) -> tuple[dict[str, Tensor], dict[str, Array]]:
        """Arrays for so many batches in a block of memory, batch by batch, and end to end."""
        block, begin = self._memory.take()
        inputs, pinned = batches * self.capacity, not isinstance(block, np.ndarray)
        memory = np.asarray(block)
        arrays: dict[str, Array] = {
            name: np.ndarray((inputs, *f.shape), f.dtype, memory, begin + self._starts[name])
            for name, f in self._fields.items()
        }
        whole: dict[str, Tensor] = {}
        views = {kind: block.view(kind) for kind in self._kinds} if pinned else {}
        for name, f in self._fields.items():
            shape = (batches, self.capacity, *f.shape)
            if not pinned:
                whole[name] = torch.from_numpy(arrays[name].reshape(shape))
                continue
            # A view of the block itself: PyTorch must know which copies of it are under way.
            kind = _TORCH[f.dtype.str[1:]]
            width = math.prod(f.shape)
            strides = (self.capacity * width, width, 1)[: len(shape)]
            first = (begin + self._starts[name]) // f.dtype.itemsize
            whole[name] = views[kind].as_strided(shape, strides, first)
        return whole, arrays

    def _offset(self, cut: Cut) -> Tensor | None:
        if cut.logit_offset is None:
            return None
        offset = torch.zeros(self.capacity, pin_memory=self.pin_memory)
        offset.numpy()[: len(cut.example_numbers)] = cut.logit_offset
        return offset

    def _list(self, ragged: Ragged, start: int, stop: int) -> ListBatch:
        ragged = ragged.slice(start, stop)
        offsets = torch.empty(self.capacity + 1, dtype=torch.int64, pin_memory=self.pin_memory)
        offsets.numpy()[: stop - start + 1] = ragged.offsets
        offsets.numpy()[stop - start + 1 :] = len(ragged.values)
        dtype = _TORCH[ragged.values.dtype.str[1:]]
        values = torch.empty(len(ragged.values), dtype=dtype, pin_memory=self.pin_memory)
        values.numpy()[:] = ragged.values
        return ListBatch(values, offsets)


def _references(blocks: list[Array], index: int) -> int:
    """How often a block is referred to: by the list, and by every array on it."""
    return sys.getrefcount(blocks[index])


# Measured, because versions of Python count the call itself differently.
_FREE = _references([np.empty(1, dtype=np.uint8)], 0)


class _Memory:
    """Blocks of bytes, each handed out again once no tensor on it is left.

    New memory costs as much to touch for the first time as to fill. Page-locked memory is left to
    torch, whose allocator also knows which copies to a device are still under way.
    """

    def __init__(self, size: int, pin_memory: bool) -> None:
        self._size, self._pin_memory = size, pin_memory
        self._blocks: list[Array] = []
        self._lock = threading.Lock()

    def reserve(self, blocks: int) -> None:
        """Have torch keep so many page-locked blocks ready; other memory costs little when new."""
        if self._pin_memory:
            some = [self.take() for _ in range(blocks)]
            some.clear()  # it keeps what it is given back

    def take(self) -> tuple[Array | Tensor, int]:
        """A block that nothing else uses, and where in it to begin."""
        if self._pin_memory:
            return torch.empty(self._size, dtype=torch.uint8, pin_memory=True), 0
        with self._lock:
            blocks = self._blocks
            free = (i for i in range(len(blocks)) if _references(blocks, i) == _FREE)
            index = next(free, None)
            if index is None:
                index = len(blocks)
                blocks.append(np.empty(self._size + PAGE, dtype=np.uint8))
            block = blocks[index]
        return block, page_start(block)
