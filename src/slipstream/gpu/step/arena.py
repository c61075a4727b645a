"""The fast tier in the memory of a device: its rows are looked up and updated by packed plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from slipstream.errors import ConfigError
from slipstream.gpu.kernels import copy_rows, lookup, touched_rows, update
from slipstream.gpu.kernels import find_slots as placing
from slipstream.gpu.kernels.rows import Shape
from slipstream.gpu.step.frames import Frame, whole
from slipstream.gpu.transfer.group_packing import COUNTS
from slipstream.tables.plan import KeptPrefix, RowSlots
from slipstream.tables.spec import Embedded, Group, InSlots, Layout

_TOUCHED = ("rows", "starts", "sources", "long_rows", "long_starts", "chunk_of")
Packed = Mapping[str, Tensor]
"""A packed plan on the device, by the names of its sections."""
_MOST = 2**31 - 1  # slots are numbers of 32 bits, and the last one stands for none
_FILL, _EVICT, _COLD = (COUNTS.index(name) for name in ("fill", "evict", "cold"))


class Arena:
    """The slots of every group on a device; `slots` is how many each group has."""

    def __init__(self, layout: Layout, slots: Sequence[int], device: torch.device) -> None:
        if max(slots, default=0) >= _MOST:
            raise ConfigError(
                f"A fast tier of {max(slots):,} rows is more than a device can number "
                f"({_MOST - 1:,}); give placement.fast_memory less."
            )
        self.layout, self.device = layout, device
        self.numbered: list[KeptPrefix] = []
        self._numbered: list[KeptPrefix] = []
        self.shapes = [Shape.of(group) for group in layout.groups]
        self.records = [
            torch.zeros((count, shape.words), dtype=torch.int32, device=device)
            for count, shape in zip(slots, self.shapes, strict=True)
        ]
        kinds = [feature.kind for feature in layout.features]
        self._places = [
            torch.tensor(
                [p for p, n in enumerate(group.features) if kinds[n] == "single"],
                dtype=torch.int32,
                device=device,
            )
            for group in layout.groups
        ]

    @property
    def bytes(self) -> int:
        """Memory of all slots."""
        return sum(records.nbytes for records in self.records)

    def number(self, resident: Sequence[RowSlots]) -> None:
        """Set which rows the device finds by their ids, for plans that it finishes."""
        self.numbered = [moves.numbered for moves in resident if moves.numbered is not None]
        self._numbered = [
            KeptPrefix(*(array.to(self.device) for array in prefix)) for prefix in self.numbered
        ]

    def arrive(self, plan: Packed) -> None:
        """Put the rows that arrived into their slots."""
        for number, records in enumerate(self.records):
            count = plan[f"{number}.counts"][_FILL : _FILL + 1]
            copy_rows.put(records, plan[f"{number}.fill"], count, plan[f"{number}.staged"])

    def find(self, plan: Packed) -> None:
        """Find the slots of the batch's ids, in a plan that the device finishes."""
        for number, numbered in enumerate(self._numbered):
            if f"{number}.cold_places" not in plan:
                continue
            cold = (plan[f"{number}.{name}"] for name in ("cold_places", "cold_slots"))
            count = plan[f"{number}.counts"][_COLD : _COLD + 1]
            ids = (plan["ids"], plan["n_valid"], *numbered[:3])
            placing.place(*ids, *cold, count, plan[f"{number}.slots"])

    def touch(self, plan: Packed) -> None:
        """Find the rows that a batch updates, in a plan that the device finishes."""
        for number in range(len(self._numbered)):
            if f"{number}.cold_places" not in plan:
                continue
            features = len(self.layout.groups[number].features)
            out = (plan[f"{number}.{name}"] for name in (*_TOUCHED, "counts"))
            touched_rows.touch(plan[f"{number}.slots"], self._places[number], features, *out)

    def count(self, plan: Packed, out: Packed) -> None:
        """Copy how many rows a batch updates to the results."""
        for number in range(len(self.records)):
            out[f"{number}.touched"].copy_(plan[f"{number}.counts"][:1])

    def leave(self, plan: Packed, out: Packed) -> None:
        """Copy the rows that leave to the results."""
        for number, records in enumerate(self.records):
            count = plan[f"{number}.counts"][_EVICT : _EVICT + 1]
            copy_rows.take(records, plan[f"{number}.evict"], count, out[f"{number}.left"])

    def lookup(
        self, plan: Packed, frame: Frame | None = None, *, in_slots: bool = False
    ) -> Embedded:
        """The vectors of the inputs in a frame (None: of the batch): leaves that collect gradients.

        Examples that are not of its part have zeros. With `in_slots` the result only has the places
        of rows, for a model that reads them by itself; all features are single then.
        """
        frame = frame or whole(len(plan["labels"]))
        span = plan["spans"][frame.span]
        inputs = frame.end - frame.first
        vectors, sequences, lengths, where = [], {}, {}, []
        for number, group in enumerate(self.layout.groups):
            shape, records = self.shapes[number], self.records[number]
            looked_up = torch.empty(
                (inputs, len(group.features), group.dim), dtype=shape.dtype, device=self.device
            )
            slots = plan[f"{number}.slots"][:, frame.inputs]
            if in_slots:
                assert len(slots) == len(group.features), "a list has no slot of its own"
                where.append(InSlots(records, slots, span, shape))
            else:
                lookup.singles(records, slots, self._places[number], span, looked_up, list(shape))
            for place, n in enumerate(group.features):
                kind = self.layout.features[n].kind
                if kind != "single":
                    offsets = plan[f"{number}.offsets {n}"][frame.bounds]
                    lists = (plan[f"{number}.values {n}"], offsets)
                    lookup.pooled(
                        records, *lists, span, looked_up, place, kind == "mean", list(shape)
                    )
            vectors.append(looked_up.requires_grad_())
            for n in group.sequences:
                offsets = plan[f"{number}.offsets {n}"][frame.bounds]
                length = self.layout.features[n].length
                steps = torch.empty(
                    (inputs, length, group.dim), dtype=shape.dtype, device=self.device
                )
                values = plan[f"{number}.values {n}"]
                lookup.steps(records, values, offsets, span, steps, list(shape))
                sequences[n], lengths[n] = steps.requires_grad_(), offsets.diff().long()
        order = self.layout.sequences
        steps_of, lengths_of = (
            tuple(by_feature[n] for n in order) for by_feature in (sequences, lengths)
        )
        return Embedded(tuple(vectors), steps_of, lengths_of, tuple(where))

    def update_rows(
        self, plan: Packed, parts: Sequence[Embedded], frames: Sequence[Frame] | None = None
    ) -> None:
        """Update the rows by the gradients that the lookups of all parts have collected.

        `frames` has the frame of each part; None is for a batch in one part.
        """
        frames = frames or [whole(len(plan["labels"]))]
        for number, group in enumerate(self.layout.groups):
            gradient = self._gradient(number, group, plan, parts, frames)
            if gradient is None:
                continue
            update.update_rows(
                self.records[number],
                *(plan[f"{number}.{name}"] for name in (*_TOUCHED, "counts")),
                gradient,
                plan["parameters"][number],
                update.NUMBER[group.optimizer.name],
                list(self.shapes[number]),
            )

    def _gradient(
        self,
        number: int,
        group: Group,
        plan: Packed,
        parts: Sequence[Embedded],
        frames: Sequence[Frame],
    ) -> Tensor | None:
        """The gradient vectors of a group as `GradientIndex` numbers them."""
        order = self.layout.sequences
        leaves = [[part.vectors[number] for part in parts]]
        leaves += [[part.sequences[order.index(n)] for part in parts] for n in group.sequences]
        if all(leaf.grad is None for some in leaves for leaf in some):
            return None
        pieces = [_joined(some, frames) for some in leaves]
        for place, n in enumerate(group.features):
            if self.layout.features[n].kind == "mean":
                sizes = plan[f"{number}.offsets {n}"].diff().clamp(min=1)
                pieces[0][:, place] /= sizes.to(pieces[0].dtype)[:, None]
        flat = [piece.reshape(-1, group.dim) for piece in pieces]
        return flat[0].contiguous() if len(flat) == 1 else torch.cat(flat)


def _joined(leaves: Sequence[Tensor], frames: Sequence[Frame]) -> Tensor:
    """The gradient of a whole batch: where frames share inputs, all but one have zeros."""
    gradients = [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves]
    total = gradients[0]
    for gradient, frame in zip(gradients[1:], frames[1:], strict=True):
        shared = len(total) - frame.first
        total = torch.cat([total, gradient[shared:]])
        total[frame.first : frame.first + shared] += gradient[:shared]
    return total
