"""How the plan of one group is packed: computed on the host, or finished on the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from slipstream.arrays import Array
from slipstream.gpu.kernels.touched_rows import sizes
from slipstream.gpu.transfer.compiled_packing import long_lists, long_sizes, narrow
from slipstream.gpu.transfer.sections import Section
from slipstream.tables.plan import GroupPlan, RowSlots
from slipstream.tables.spec import Group, Layout
from slipstream.tables.store import Record

COUNTS = ("touched", "long", "chunks", "fill", "evict", "cold")
"""The counts of a group, in this order: the rest of its capacity is padding."""


@dataclass(frozen=True)
class GroupPacking:
    """What of a group's plan is sent, and the room for what the device computes.

    `inputs` is the size of a batch, and `room` how much fits, by the names of `needs_of`.
    """

    layout: Layout
    group: Group
    inputs: int
    room: Mapping[str, int]

    @property
    def lists(self) -> list[int]:
        """The features that are lists."""
        both = (*self.group.features, *self.group.sequences)
        return [n for n in both if self.layout.features[n].kind != "single"]

    @property
    def finished(self) -> bool:
        """Whether the device finishes the plan."""
        return "cold" in self.room

    def sent(self) -> dict[str, Section]:
        """The sections that are packed."""
        sections = {
            "counts": _numbers(len(COUNTS)),
            "fill": _numbers(self.room["fill"]),
            "evict": _numbers(self.room["evict"]),
        }
        if self.finished:
            sections["cold_places"] = sections["cold_slots"] = _numbers(self.room["cold"])
        else:
            sections |= self._computed(self.room["touched"], self.room["sources"])
            sections["long_rows"] = _numbers(self.room["long"])
            sections["long_starts"] = _numbers(self.room["long"])
            sections["chunk_of"] = _numbers(self.room["chunks"])
        for n in self.lists:
            sections[f"offsets {n}"] = _numbers(self.inputs + 1)
            sections[f"values {n}"] = _numbers(self.room[f"values {n}"])
        words = Record.of(self.group).words
        return {**sections, "staged": Section(torch.int32, (self.room["fill"], words))}

    def beside(self) -> dict[str, Section]:
        """The sections that the device computes."""
        if not self.finished:
            return {}
        lookups = len(self.group.features) * self.inputs
        computed = {name: _numbers(size) for name, size in sizes(lookups).items()}
        return self._computed(lookups, lookups) | computed

    def _computed(self, rows: int, sources: int) -> dict[str, Section]:
        singles = len(self.group.features) + len(self.group.sequences) - len(self.lists)
        return {
            "slots": Section(torch.int32, (singles, self.inputs)),
            "rows": _numbers(rows),
            "starts": _numbers(rows + 1),
            "sources": _numbers(sources),
        }

    def pack(self, plan: GroupPlan, into: Mapping[str, Array]) -> None:
        """Write a plan into the arrays of a block, all but the rows that come."""
        fill, evict = tiers_of(plan)
        into["fill"][: len(fill.slots)] = fill.slots
        into["evict"][: len(evict.slots)] = evict.slots
        rows = long = chunks = cold = 0
        if plan.cold is not None:
            cold = len(plan.cold.places)
            into["cold_places"][:cold] = plan.cold.places
            into["cold_slots"][:cold] = plan.cold.slots
        else:
            assert plan.touched is not None, "plans for a device are plans for training"
            narrow(plan.slots.numpy().reshape(-1), into["slots"].reshape(-1))
            rows, starts = len(plan.touched.rows), plan.touched.starts.numpy()
            narrow(plan.touched.rows.numpy(), into["rows"])
            narrow(starts, into["starts"])
            narrow(plan.touched.sources.numpy(), into["sources"])
            outs = (into[name] for name in ("long_rows", "long_starts", "chunk_of"))
            long, chunks = long_lists(starts, *outs)
        for n, lists in plan.lists.items():
            narrow(lists.offsets.numpy(), into[f"offsets {n}"])
            narrow(lists.slots.numpy(), into[f"values {n}"])
        into["counts"][:] = rows, long, chunks, len(fill.rows), len(evict.rows), cold


def tiers_of(plan: GroupPlan) -> tuple[RowSlots, RowSlots]:
    """The rows that a plan for a device moves into slots, and out of them."""
    assert plan.fill is not None, "a plan for a device lists rows that come"
    assert plan.evict is not None, "a plan for a device lists rows that leave"
    return plan.fill, plan.evict


def needs_of(plan: GroupPlan) -> dict[str, int]:
    """The room that a plan takes, by name."""
    fill, evict = tiers_of(plan)
    needed = {"fill": len(fill.rows), "evict": len(evict.rows)}
    if plan.cold is not None:
        return {**needed, "cold": len(plan.cold.places)}
    assert plan.touched is not None, "plans for a device are plans for training"
    needed["touched"], needed["sources"] = len(plan.touched.rows), len(plan.touched.sources)
    needed["long"], needed["chunks"] = long_sizes(plan.touched.starts.numpy())
    return {**needed, **{f"values {n}": len(lists.slots) for n, lists in plan.lists.items()}}


def _numbers(count: int) -> Section:
    return Section(torch.int32, (count,))
