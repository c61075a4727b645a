"""Batches that are only scored, on a device: kept rows are there, the others come with their batch.

Nothing is changed, neither a row nor its place. While a batch is scored, a thread sends the rows of
the next ones; scoring is recorded like a step, and no batch waits for the predictions of the last
one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from slipstream.arrays import Array
from slipstream.background import BackgroundIterator
from slipstream.data.batch import Batch
from slipstream.gpu.kernels import lookup
from slipstream.gpu.kernels.find_slots import place
from slipstream.gpu.planning import cold_kernels
from slipstream.gpu.step.arena import Arena
from slipstream.gpu.streams import Stream, StreamEvent
from slipstream.gpu.transfer.bundle import SCORED
from slipstream.gpu.transfer.gather import SHARE, Pool
from slipstream.gpu.transfer.packing import room_for
from slipstream.gpu.transfer.ring import Pages, Ring
from slipstream.gpu.transfer.sections import Section, Sections
from slipstream.tables.plan import KeptPrefix
from slipstream.tables.spec import Embedded
from slipstream.tables.store import RowStore

_WAITING = 2  # batches whose predictions are on their way
_BEFORE_RECORDING = 2
Logits = Callable[[Tensor, Embedded], Tensor]
"""The logits of a batch, from its dense values and vectors."""
Record = Callable[[Callable[[], Tensor]], "tuple[torch.cuda.CUDAGraph, Tensor] | None"]
"""Records some work; None where that is not possible."""


class _Others(NamedTuple):
    """Lookups of rows that do not stay: their places, and their rows."""

    places: Array
    rows: Array


class _Sent(NamedTuple):
    """A batch on its way, in a page of its own, or without one if an id is out of range."""

    batch: Batch
    pages: Pages | None
    there: StreamEvent


class Scoring:
    """Scores batches of `capacity` inputs, whose features are all single.

    Rows must be the same in the slow store as in their slots, and stay so meanwhile.
    """

    def __init__(self, arena: Arena, slow: Sequence[RowStore], capacity: int) -> None:
        self.capacity = capacity
        self._arena, self._slow = arena, slow
        self._compute, self._inward = Stream(arena.device, current=True), Stream(arena.device)
        self._numbered = [
            KeptPrefix(*(array.to(arena.device) for array in prefix)) for prefix in arena.numbered
        ]
        self._scans = [_Scan(prefix) for prefix in arena.numbered]
        self._room: dict[str, int] = {}
        self._ring: Ring | None = None
        self._buffers: _ScoreBuffers | None = None
        pairs = zip(arena.layout.groups, arena.shapes, strict=True)
        self._most_bytes = max(4 * shape.words * len(group.features) for group, shape in pairs)
        exact = any(shape.dtype == torch.float64 for shape in arena.shapes)
        self._number = torch.float64 if exact else torch.float32
        pinned = arena.device.type == "cuda"
        self._logits = torch.zeros((_WAITING + 1, capacity), dtype=self._number, pin_memory=pinned)

    def rows_of(self, batches: Iterable[Batch]) -> list[Array]:
        """For each group the rows of some batches that do not stay."""
        rows: list[list[Array]] = [[] for _ in self._scans]
        for batch in batches:
            for of_group, scan in zip(rows, self._scans, strict=True):
                others = scan.others(batch)
                of_group.append(np.empty(0, np.int64) if others is None else others.rows.copy())
        return [np.concatenate(some) for some in rows]

    def scores(
        self, batches: Iterable[Batch], logits: Logits, record: Record
    ) -> Generator[tuple[Batch, Tensor | None], None, None]:
        """The logits of each batch, in order; None where an id is out of range.

        `logits` computes them, the same way each time, and `record` records that, if possible.
        """
        # To read a few rows takes less time than to start threads.
        helped = self.capacity * self._most_bytes > SHARE
        pool = Pool("score", threads=None if helped else 0)
        waiting: deque[tuple[Batch, Tensor, StreamEvent]] = deque()
        try:
            with BackgroundIterator(
                (self._sent(batch, pool) for batch in batches), SCORED - 2, "scores"
            ) as coming:
                for number, sent in enumerate(coming):
                    if sent.pages is None:
                        yield from map(_received, waiting)
                        waiting.clear()
                        yield sent.batch, None
                        continue
                    on_host = self._logits[number % (_WAITING + 1)]
                    with torch.no_grad():
                        on_device = self._scored(sent, sent.pages, logits, record)
                        on_host.copy_(on_device, non_blocking=True)
                    waiting.append((sent.batch, on_host, self._compute.mark()))
                    if len(waiting) > _WAITING:
                        yield _received(waiting.popleft())
            yield from map(_received, waiting)
        except BaseException:
            # Some pages are never given back, and copies may still be on their way.
            self._inward.mark().wait()
            self._ring = None
            raise
        finally:
            pool.close()

    def _sent(self, batch: Batch, pool: Pool) -> _Sent:
        """Send a batch to the device, with the rows that are not there."""
        scanned = [scan.others(batch) for scan in self._scans]
        others = [lookups for lookups in scanned if lookups is not None]
        if len(others) < len(scanned):
            return _Sent(batch, None, StreamEvent())
        pages = self._ring_for(batch, [len(lookups.rows) for lookups in others]).take(1)
        (arrays,) = pages.arrays
        arrays["ids"][:] = batch.ids.numpy()
        arrays["dense"][:] = batch.dense.numpy()
        arrays["n_valid"][:] = batch.n_valid
        for number, (places, rows) in enumerate(others):
            arrays[f"{number}.count"][:] = len(rows)
            arrays[f"{number}.places"][: len(rows)] = places
            pool.gather(self._slow[number].records, rows, arrays[f"{number}.staged"])
        with self._inward.used():
            pages.device.copy_(pages.host, non_blocking=True)
        return _Sent(batch, pages, self._inward.mark())

    def _ring_for(self, batch: Batch, counts: Sequence[int]) -> Ring:
        """Pages with room for a batch that needs so many rows of each group."""
        needed = {str(number): count for number, count in enumerate(counts)}
        if self._ring is None or any(self._room[name] < size for name, size in needed.items()):
            self._room = room_for(needed, self._room)
            self._ring = Ring(self._sections(batch), SCORED, self._arena.device)
        return self._ring

    def _sections(self, batch: Batch) -> Sections:
        sections = {
            "ids": Section(torch.int32, tuple(batch.ids.shape)),
            "dense": Section(self._number, tuple(batch.dense.shape)),
            "n_valid": Section(torch.int32, (1,)),
        }
        for number, shape in enumerate(self._arena.shapes):
            room = self._room[str(number)]
            sections[f"{number}.count"] = Section(torch.int32, (1,))
            sections[f"{number}.places"] = Section(torch.int32, (room,))
            sections[f"{number}.staged"] = Section(torch.int32, (room, shape.words))
        return Sections(sections)

    def _scored(self, coming: _Sent, pages: Pages, logits: Logits, record: Record) -> Tensor:
        """The logits of a batch, on the device, valid until the next ones."""
        coming.there.before_more_in(self._compute)
        if self._buffers is None or self._buffers.ring is not pages.ring:
            self._buffers = _ScoreBuffers(pages.ring, self._arena)
        buffers = self._buffers
        buffers.block.copy_(pages.device[0])
        pages.ring.give_back(pages, self._compute.mark())
        if buffers.recording is None and buffers.done == _BEFORE_RECORDING:
            buffers.recording = record(lambda: self._work(buffers, logits))
        buffers.done += 1
        if buffers.recording is None:
            return self._work(buffers, logits)
        graph, result = buffers.recording
        graph.replay()
        return result

    def _work(self, buffers: _ScoreBuffers, logits: Logits) -> Tensor:
        """One batch, from the block that it is in."""
        arena, plan, vectors = self._arena, buffers.plan, []
        groups = zip(arena.layout.groups, self._numbered, strict=True)
        for number, (group, prefix) in enumerate(groups):
            own, shape = buffers.groups[number], list(arena.shapes[number])
            come = (plan[f"{number}.places"], own.every)
            none = (own.every[:0], own.every[:0])
            both = []
            for records, limits, cold in (
                (arena.records[number], prefix.limits, none),
                (plan[f"{number}.staged"], own.no_limits, come),
            ):
                where = (plan["ids"], plan["n_valid"], prefix.columns, limits, prefix.bases)
                place(*where, *cold, plan[f"{number}.count"], own.slots)
                size = (self.capacity, len(group.features), group.dim)
                dtype = arena.shapes[number].dtype
                both.append(torch.empty(size, dtype=dtype, device=arena.device))
                lookup.singles(records, own.slots, own.features, buffers.span, both[-1], shape)
            vectors.append(both[0].add_(both[1]))  # either is zero
        return logits(plan["dense"], Embedded(tuple(vectors)))


class _GroupBuffers(NamedTuple):
    """Tensors of a group for scoring, beside its plan.

    `slots` has room for those of a batch, `features` has the number of each feature, `every` those
    of all rows that may come, and `no_limits` is 0 for each feature: no row stays.
    """

    slots: Tensor
    features: Tensor
    every: Tensor
    no_limits: Tensor


class _ScoreBuffers:
    """The memory in which batches are scored, always the same: each is copied to `block`."""

    def __init__(self, ring: Ring, arena: Arena) -> None:
        self.ring = ring
        device = arena.device
        self.block = torch.zeros(ring.sections.bytes, dtype=torch.uint8, device=device)
        self.plan = ring.sections.tensors(self.block)
        inputs = len(self.plan["ids"])
        self.span = torch.tensor([0, inputs], dtype=torch.int32, device=device)
        self.groups = []
        for number, group in enumerate(arena.layout.groups):
            features, room = len(group.features), len(self.plan[f"{number}.places"])
            self.groups.append(
                _GroupBuffers(
                    torch.zeros((features, inputs), dtype=torch.int32, device=device),
                    torch.arange(features, dtype=torch.int32, device=device),
                    torch.arange(room, dtype=torch.int32, device=device),
                    torch.zeros(features, dtype=torch.int32, device=device),
                )
            )
        self.done = 0
        self.recording: tuple[torch.cuda.CUDAGraph, Tensor] | None = None


class _Scan:
    """Finds the lookups of rows that do not stay, in memory of its own."""

    def __init__(self, prefix: KeptPrefix) -> None:
        self._columns = prefix.columns.numpy()
        self._limits, self._starts, self._sizes = (
            array.numpy() for array in (prefix.limits, prefix.starts, prefix.sizes)
        )
        self._places, self._rows = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64)

    def others(self, batch: Batch) -> _Others | None:
        """Those of a batch, valid until the next call; None where an id is out of range."""
        n = batch.n_valid
        ids = np.ascontiguousarray(batch.ids.numpy()[:n][:, self._columns])
        ids = ids.view(np.uint32 if ids.itemsize == 4 else np.uint64)
        if ids.size > len(self._places):
            self._places, self._rows = np.empty(ids.size, np.int32), np.empty(ids.size, np.int64)
        bounds = np.empty(2, dtype=np.int64)
        limits = self._limits.astype(ids.dtype)
        out = (self._places, self._rows, bounds)
        wrong = cold_kernels.scan(ids, n, max(1, n), limits, self._starts, self._sizes, *out)
        return None if wrong else _Others(self._places[: bounds[1]], self._rows[: bounds[1]])


def _received(waiting: tuple[Batch, Tensor, StreamEvent]) -> tuple[Batch, Tensor]:
    """A batch with its logits, once they are there."""
    batch, logits, there = waiting
    there.wait()
    return batch, logits.clone()
