"""Lookups and dense part as one module of plain tensors, which `torch.export` can export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

from slipstream.data.schema import Schema
from slipstream.models import Model
from slipstream.tables.pooling import POOLINGS
from slipstream.tables.spec import Embedded, Feature

_EXAMPLE = 3


class Program(nn.Module):  # type: ignore[misc]
    """Computes logits from dense values and ids.

    It stores `tables`; those of the names in `outside` are passed with every call, in this order.
    """

    def __init__(
        self, model: Model, schema: Schema, tables: Mapping[str, Tensor], outside: Sequence[str]
    ) -> None:
        super().__init__()
        self.dense = model
        self.layout = model.layout
        self.singles = [column.name for column in schema.singles]
        self.lists = [column.name for column in schema.lists]
        self.outside = list(outside)
        self.inside = {name: f"table_{number}" for number, name in enumerate(tables)}
        for name, rows in tables.items():
            self.register_buffer(self.inside[name], rows)

    def forward(self, dense: Tensor, ids: Tensor, *rest: Tensor) -> Tensor:
        """The logits `[B]` of `dense`, float32 `[B, values]`, and `ids`, int64 `[B, columns]`.

        The rest are for each list column its ids, int64 `[B, longest]`, and their numbers, int64
        `[B]`; then the tables outside.
        """
        tables = {name: getattr(self, buffer) for name, buffer in self.inside.items()}
        tables.update(zip(self.outside, rest[2 * len(self.lists) :], strict=True))
        lists = {
            name: (rest[2 * place], rest[2 * place + 1]) for place, name in enumerate(self.lists)
        }
        vectors = []
        for group in self.layout.groups:
            features = [self.layout.features[number] for number in group.features]
            pooled = [
                self._vector(feature, tables[feature.table], ids, lists) for feature in features
            ]
            empty = dense.new_zeros(dense.shape[0], 0, group.dim)
            vectors.append(torch.stack(pooled, 1) if pooled else empty)
        sequences, lengths = [], []
        for number in self.layout.sequences:
            feature = self.layout.features[number]
            values = lists[feature.column]
            steps, present = _steps(tables[feature.table], *values, feature.length)
            sequences.append(steps)
            lengths.append(present)
        return self.dense(dense, Embedded(tuple(vectors), tuple(sequences), tuple(lengths)))

    def _vector(
        self,
        feature: Feature,
        table: Tensor,
        ids: Tensor,
        lists: Mapping[str, tuple[Tensor, Tensor]],
    ) -> Tensor:
        if feature.kind == "single":
            return F.embedding(ids[:, self.singles.index(feature.column)], table).float()
        values, lengths = lists[feature.column]
        present = torch.arange(values.shape[1], device=values.device) < lengths.unsqueeze(1)
        rows = F.embedding(values.masked_fill(~present, 0), table).float()
        return POOLINGS[feature.kind](rows.masked_fill(~present.unsqueeze(2), 0.0), present)


def _steps(table: Tensor, values: Tensor, lengths: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """The last `length` steps of each list, and their number."""
    present = lengths.clamp(max=length)
    numbers = torch.arange(length, device=values.device)
    valid = numbers < present.unsqueeze(1)
    place = (lengths - present).unsqueeze(1) + numbers
    values = values.gather(1, place.clamp(max=values.shape[1] - 1))
    rows = F.embedding(values.masked_fill(~valid, 0), table).float()
    return rows.masked_fill(~valid.unsqueeze(2), 0.0), present


def exported(program: Program, schema: Schema, outside: Sequence[Tensor]) -> ExportedProgram:
    """The exported program, for any batch size and any length of lists."""
    dense = torch.zeros(_EXAMPLE, len(schema.dense))
    ids = torch.zeros(_EXAMPLE, len(schema.singles), dtype=torch.int64)
    batch = Dim("batch")
    rest: list[Tensor] = []
    shapes: list[Any] = []
    for number, _ in enumerate(schema.lists):
        rest += [torch.zeros(_EXAMPLE, 5, dtype=torch.int64), torch.tensor([5, 0, 2])]
        shapes += [{0: batch, 1: Dim(f"longest_{number}", min=1)}, {0: batch}]
    rest += outside
    shapes += [{} for _ in outside]
    dynamic: dict[str, Any] = {"dense": {0: batch}, "ids": {0: batch}}
    if rest:
        dynamic["rest"] = tuple(shapes)
    with torch.no_grad():
        exported_program = export(program, (dense, ids, *rest), dynamic_shapes=dynamic)
    exported_program.example_inputs = None  # they would be saved, tables outside included
    return exported_program
