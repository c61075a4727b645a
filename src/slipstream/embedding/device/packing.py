"""Plans as a device wants them: every size fixed, every number 32 bits, all in one block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from slipstream.data.inputs import Array
from slipstream.embedding.device.narrow import long_lists, long_sizes, narrow
from slipstream.embedding.device.sections import Section, Sections
from slipstream.embedding.kernels.rows import parameters
from slipstream.embedding.spec import Group, Layout
from slipstream.embedding.store import Record
from slipstream.plan import GroupPlan, Plan

COUNTS = ("touched", "long", "chunks", "fill", "evict")
"""What of a group is counted, in this order: the rest of its capacity is padding."""
_SPARE = 1.25


@dataclass(frozen=True)
class Packing:
    """How the plans of a layout are packed, with room for batches of these sizes.

    Args:
        layout: Tables and features.
        inputs: Inputs of a batch.
        dense: Dense values of an input.
        room: How much fits, by the names that `needs` gives.
        number: float32, or float64 for checks: of labels, weights and dense values.
    """

    layout: Layout
    inputs: int
    dense: int
    room: Mapping[str, int]
    number: torch.dtype = torch.float32

    @cached_property
    def sections(self) -> Sections:
        """What a packed plan has, in order."""
        made = {
            "labels": Section(self.number, (self.inputs,)),
            "weight": Section(self.number, (self.inputs,)),
            "logit_offset": Section(self.number, (self.inputs,)),
            "dense": Section(self.number, (self.inputs, self.dense)),
            "parameters": Section(torch.float64, (len(self.layout.groups), 4)),
            "factor": Section(torch.float64, (2,)),
            "spans": Section(torch.int32, (3,)),
        }
        for number, group in enumerate(self.layout.groups):
            for name, one in self._group(number, group).items():
                made[f"{number}.{name}"] = one
        return Sections(made)

    def _group(self, number: int, group: Group) -> dict[str, Section]:
        room = {what: self.room[f"{number}.{what}"] for what in (*COUNTS, "sources")}
        sizes = {
            "counts": len(COUNTS),
            "rows": room["touched"],
            "starts": room["touched"] + 1,
            "sources": room["sources"],
            "long_rows": room["long"],
            "long_starts": room["long"] + 1,
            "chunk_of": room["chunks"],
            "fill": room["fill"],
            "evict": room["evict"],
        }
        for n in self._lists(group):
            sizes[f"offsets {n}"] = self.inputs + 1
            sizes[f"values {n}"] = self.room[f"{number}.values {n}"]
        made = {name: Section(torch.int32, (size,)) for name, size in sizes.items()}
        singles = len(group.features) + len(group.sequences) - len(self._lists(group))
        made["slots"] = Section(torch.int32, (singles, self.inputs))
        made["staged"] = Section(torch.int32, (room["fill"], Record.of(group).words))
        return made

    def _lists(self, group: Group) -> list[int]:
        both = (*group.features, *group.sequences)
        return [n for n in both if self.layout.features[n].kind != "single"]

    def fits(self, needed: Mapping[str, int]) -> bool:
        """Whether there is room for a plan with these needs."""
        return all(size <= self.room[name] for name, size in needed.items())

    def pack(self, plan: Plan, factor: float, into: Mapping[str, Array]) -> None:
        """Write a plan into the arrays of a block, all but the rows that come.

        Args:
            plan: The plan.
            factor: Of all learning rates.
            into: The arrays of the block.
        """
        into["labels"][:] = plan.labels.numpy()
        into["weight"][:] = plan.weight.numpy()
        into["dense"][:] = plan.dense.numpy()
        into["logit_offset"][:] = 0 if plan.logit_offset is None else plan.logit_offset.numpy()
        into["factor"][:] = factor, plan.step
        into["spans"][:] = 0, plan.parts[0] if plan.parts else self.inputs, self.inputs
        for number, (group, one) in enumerate(zip(self.layout.groups, plan.groups, strict=True)):
            own = group.optimizer
            into["parameters"][number] = parameters(
                own, own.lr * factor, plan.step, np.dtype(np.float64)
            )
            mine = {
                name.partition(".")[2]: array
                for name, array in into.items()
                if name.startswith(f"{number}.")
            }
            _pack_group(one, mine)


def needs(plan: Plan) -> dict[str, int]:
    """The room that a plan takes, by group and name."""
    made = {}
    for number, group in enumerate(plan.groups):
        touched, fill, evict = group.touched, group.fill, group.evict
        assert touched is not None, "plans for a device are plans for training"
        assert fill is not None, "plans for a device say what comes"
        assert evict is not None, "plans for a device say what leaves"
        long, chunks = long_sizes(touched.starts.numpy())
        sizes = (len(touched.rows), long, chunks, len(fill.rows), len(evict.rows))
        made |= {f"{number}.{name}": size for name, size in zip(COUNTS, sizes, strict=True)}
        made[f"{number}.sources"] = len(touched.sources)
        for n, lists in group.lists.items():
            made[f"{number}.values {n}"] = len(lists.slots)
    return made


def room_for(needed: Mapping[str, int], before: Mapping[str, int] | None = None) -> dict[str, int]:
    """Room for a plan with these needs, and for what had room before, with some to spare.

    Example:
        >>> room_for({"0.touched": 1000}, {"0.touched": 1300})
        {'0.touched': 1300}
        >>> room_for({"0.touched": 2000}, {"0.touched": 1300})
        {'0.touched': 2560}
    """
    before = before or {}
    made = {}
    for name, size in needed.items():
        had = before.get(name, 0)
        made[name] = had if 0 < size <= had else -(-int(size * _SPARE + 1) // 256) * 256
    return made


def _pack_group(plan: GroupPlan, into: Mapping[str, Array]) -> None:
    touched, fill, evict = plan.touched, plan.fill, plan.evict
    assert touched is not None and fill is not None and evict is not None, "as `needs` asks"
    narrow(plan.slots.numpy().reshape(-1), into["slots"].reshape(-1))
    for n, lists in plan.lists.items():
        narrow(lists.offsets.numpy(), into[f"offsets {n}"])
        narrow(lists.slots.numpy(), into[f"values {n}"])
    starts = touched.starts.numpy()
    narrow(touched.rows.numpy(), into["rows"])
    narrow(starts, into["starts"])
    narrow(touched.sources.numpy(), into["sources"])
    narrow(fill.slots.numpy(), into["fill"])
    narrow(evict.slots.numpy(), into["evict"])
    long, chunks = long_lists(starts, into["long_rows"], into["long_starts"], into["chunk_of"])
    into["counts"][:] = len(touched.rows), long, chunks, len(fill.rows), len(evict.rows)
