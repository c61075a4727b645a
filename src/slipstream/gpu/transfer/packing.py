"""Plans as a device needs them: every size fixed, every number 32 bits, all in one block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from slipstream.arrays import Array
from slipstream.gpu.step import frames
from slipstream.gpu.transfer.compiled_packing import pack_cold
from slipstream.gpu.transfer.group_packing import GroupPacking, needs_of
from slipstream.gpu.transfer.sections import Section, Sections
from slipstream.tables.optimizers import RowOptimizer
from slipstream.tables.plan import Emitted, Plan
from slipstream.tables.spec import Layout

_SPARE = 1.25
_OF_ROWS_THAT_COME = ("fill", "evict", "cold")
_PARTS = 2  # that a batch has at most


@dataclass(frozen=True)
class Packing:
    """How the plans of a layout are packed, with room for batches of these sizes.

    `inputs` is the size of a batch, `dense` the number of dense values of an example, and `room`
    how much fits, by the names of `needs`. `number` is float32, or float64 for checks: the type of
    labels, weights and dense values. `weights` is how many numbers describe the update of dense
    weights. `columns` is the number of single columns of the data set, for plans that the device
    finishes; else 0. With `offsets`, plans add something to logits; else there are zeros on the
    device.
    """

    layout: Layout
    inputs: int
    dense: int
    room: Mapping[str, int]
    number: torch.dtype = torch.float32
    weights: int = 0
    columns: int = 0
    offsets: bool = False

    @cached_property
    def groups(self) -> list[GroupPacking]:
        """How the plan of each group is packed."""
        packings = []
        for number, group in enumerate(self.layout.groups):
            start = f"{number}."
            room = {n.removeprefix(start): s for n, s in self.room.items() if n.startswith(start)}
            packings.append(GroupPacking(self.layout, group, self.inputs, room))
        return packings

    @cached_property
    def sections(self) -> Sections:
        """The sections of a packed plan, in order, without its inputs."""
        sections = self._offset if self.offsets else {}
        sections |= {
            "parameters": Section(torch.float64, (len(self.layout.groups), 4)),
            "weights": Section(torch.float64, (self.weights,)),
            "spans": Section(torch.int32, (2 * _PARTS,)),
            "n_valid": Section(torch.int32, (1,)),
        }
        for number, group in enumerate(self.groups):
            sections |= {f"{number}.{name}": part for name, part in group.sent().items()}
        return Sections(sections)

    @cached_property
    def of_inputs(self) -> Sections:
        """The sections of its inputs, behind all others: sent from where they were read."""
        return Sections(
            {
                "labels": Section(self.number, (self.inputs,)),
                "weight": Section(self.number, (self.inputs,)),
                "dense": Section(self.number, (self.inputs, self.dense)),
                "ids": Section(torch.int32, (self.inputs, self.columns)),
            }
        )

    @property
    def bytes(self) -> int:
        """Size of a block."""
        return self.sections.bytes + self.of_inputs.bytes

    def tensors(self, block: Tensor) -> dict[str, Tensor]:
        """The tensors in a block, as views of it."""
        packed = self.sections.bytes
        return self.sections.tensors(block[:packed]) | self.of_inputs.tensors(block[packed:])

    def arrays(self, block: Array) -> dict[str, Array]:
        """The same, of a block in host memory."""
        packed = self.sections.bytes
        return self.sections.arrays(block[:packed]) | self.of_inputs.arrays(block[packed:])

    @cached_property
    def beside(self) -> Sections:
        """The sections that the device computes, and keeps until the step is done."""
        computed = {
            f"{number}.{name}": part
            for number, group in enumerate(self.groups)
            for name, part in group.beside().items()
        }
        return Sections(computed if self.offsets else {**computed, **self._offset})

    @property
    def _offset(self) -> dict[str, Section]:
        return {"logit_offset": Section(self.number, (self.inputs,))}

    @cached_property
    def _names(self) -> list[list[tuple[str, str]]]:
        """For each group the names of its sections: its own, and those of the block."""
        return [
            [(name, f"{number}.{name}") for name in group.sent()]
            for number, group in enumerate(self.groups)
        ]

    def fits(self, needed: Mapping[str, int]) -> bool:
        """Whether there is room for a plan with these needs."""
        return all(size <= self.room[name] for name, size in needed.items())

    def pack(self, plan: Plan, factor: float, into: Mapping[str, Array]) -> None:
        """Write a plan into the arrays of a block, all but dense weights and rows that come."""
        for name, values in inputs_of(plan).items():
            into[name][:] = values.numpy()
        self.pack_steps([plan], [factor], {name: array[None] for name, array in into.items()})
        self.pack_rows(plan, into)

    def pack_rows(self, plan: Plan, into: Mapping[str, Array]) -> None:
        """Write into the arrays of a block where rows are."""
        for number, (packing, group) in enumerate(zip(self.groups, plan.groups, strict=True)):
            packing.pack(group, {name: into[whole] for name, whole in self._names[number]})

    def pack_steps(
        self, plans: Sequence[Plan], factors: Sequence[float], into: Mapping[str, Array]
    ) -> None:
        """Write the data of plans that is not about single rows into the arrays of their blocks.

        `factors` multiply all learning rates of each plan. The arrays are `[plans, ...]`.
        """
        spans = [frames.spans(plan) for plan in plans]
        longest = max(map(len, spans))
        into["spans"][:, :longest] = [(*own, *[0] * (longest - len(own))) for own in spans]
        into["n_valid"][:, 0] = [plan.n_valid for plan in plans]
        if self.offsets:
            for plan, offset in zip(plans, into["logit_offset"], strict=True):
                offset[:] = 0 if plan.logit_offset is None else plan.logit_offset.numpy()
        for number, group in enumerate(self.layout.groups):
            own = group.optimizer
            into["parameters"][:, number] = [
                _parameters(own, own.lr * factor, plan.step)
                for plan, factor in zip(plans, factors, strict=True)
            ]

    def pack_many(
        self, number: int, many: Emitted, lookups: Array, fills: Array, evicts: Array, words: Array
    ) -> None:
        """Write where the rows of group `number` are into several blocks, for plans made together.

        `lookups`, `fills` and `evicts` are where those of each plan begin, and where the last end.
        """
        names = ("counts", "cold_places", "cold_slots", "fill", "evict")
        starts = [self.sections.starts[f"{number}.{name}"] // 4 for name in names]
        pack_cold(
            words, np.array(starts, dtype=np.int64), lookups, many.places, many.slots,
            fills, many.fill_slots, evicts, many.evict_slots,
        )  # fmt: skip


def inputs_of(plan: Plan) -> dict[str, Tensor]:
    """The inputs of a plan, by the names of their sections."""
    inputs = {"labels": plan.labels, "weight": plan.weight, "dense": plan.dense}
    return inputs if plan.ids is None else {**inputs, "ids": plan.ids}


def needs(plan: Plan) -> dict[str, int]:
    """The room that a plan takes, by group and name."""
    return {
        f"{number}.{name}": size
        for number, group in enumerate(plan.groups)
        for name, size in needs_of(group).items()
    }


def room_for(
    needed: Mapping[str, int], before: Mapping[str, int] | None = None, *, grows: float = 1.0
) -> dict[str, int]:
    """Room for a plan with these needs, and for what had room before, with some to spare.

    `grows` is how many times as many rows as now may have to come for later plans.

    Example:
        >>> room_for({"0.touched": 1000}, {"0.touched": 1300})
        {'0.touched': 1300}
        >>> room_for({"0.touched": 2000}, {"0.touched": 1300})
        {'0.touched': 2816}
        >>> room_for({"0.fill": 0}, {"0.fill": 1300})
        {'0.fill': 1300}
    """
    before = before or {}
    room = {}
    for name, size in needed.items():
        had = before.get(name, 0)
        # Double it, since it may grow again, and each time all pages are allocated anew.
        more = grows if name.rpartition(".")[2] in _OF_ROWS_THAT_COME else 1.0
        wanted = max(int(size * more * _SPARE + 1), 2 * had)
        room[name] = had if 0 < had >= size else -(-wanted // 256) * 256
    return room


def _parameters(optimizer: RowOptimizer, lr: float, step: int) -> tuple[float, ...]:
    """The four numbers that the kernel of an optimizer needs."""
    if optimizer.name == "adam":
        return optimizer.kernel_options(lr, step)
    return (lr, optimizer.options().get("eps", 0.0), optimizer.weight_decay, 0.0)
