"""All embedding tables of a model: looked up and moved as a plan says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from slipstream.embedding.init import fill
from slipstream.embedding.kernels import cpu, reference
from slipstream.embedding.spec import Embedded, Layout
from slipstream.embedding.store import RowStore
from slipstream.plan import GroupPlan

ENGINES: dict[str, ModuleType] = {"cpu": cpu, "reference": reference}


class Embeddings:
    """The rows of every table of a layout, and the kernels that read and move them.

    Args:
        layout: Tables and features.
        seed: Of the first values; None leaves zeros, to be filled otherwise.
        engine: cpu, or reference: plain PyTorch, for checks.
        folder: Keep the rows in new mapped files there instead of in memory.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        seed: int | None = 0,
        engine: str = "cpu",
        folder: Path | None = None,
    ) -> None:
        self.layout = layout
        self._kernels = ENGINES[engine]
        self.stores = [
            RowStore(group, None if folder is None else folder / f"rows-{number}.bin")
            for number, group in enumerate(layout.groups)
        ]
        if seed is not None:
            for store in self.stores:
                fill(store, seed)

    def lookup(self, groups: Sequence[GroupPlan], *, gradients: bool = True) -> Embedded:
        """The vectors of a batch; with `gradients` they are leaves that collect their gradient."""
        vectors, sequences, lengths = [], {}, {}
        for group, store, plan in zip(self.layout.groups, self.stores, groups, strict=True):
            first, *others = self._kernels.lookup(self.layout, group, store, plan)
            vectors.append(first)
            for number, steps in zip(group.sequences, others, strict=True):
                sequences[number] = steps
                lengths[number] = plan.lists[number].offsets.diff()
        if gradients:
            for tensor in (*vectors, *sequences.values()):
                tensor.requires_grad_()
        order = self.layout.sequences
        return Embedded(
            tuple(vectors), tuple(sequences[n] for n in order), tuple(lengths[n] for n in order)
        )

    def update(
        self, groups: Sequence[GroupPlan], embedded: Embedded, *, step: int, factor: float = 1.0
    ) -> None:
        """Move the rows by the gradients that a lookup has collected.

        Args:
            groups: The plan of the batch.
            embedded: What the lookup gave, after the backward pass.
            step: The number of the step, from 1.
            factor: Of every table's learning rate.
        """
        gradients = [self._gradient(n, plan, embedded) for n, plan in enumerate(groups)]
        self.move(groups, gradients, step=step, factor=factor)

    def move(
        self,
        groups: Sequence[GroupPlan],
        gradients: Sequence[Tensor | None],
        *,
        step: int,
        factor: float = 1.0,
    ) -> None:
        """Move the rows by gradient vectors, those of each group as `Touched` numbers them."""
        for store, plan, gradient in zip(self.stores, groups, gradients, strict=True):
            if gradient is not None:
                lr = store.group.optimizer.lr * factor
                self._kernels.update(store, plan, gradient, lr, step)

    def _gradient(self, number: int, plan: GroupPlan, embedded: Embedded) -> Tensor | None:
        """The gradient vectors of a group as `Touched` numbers them."""
        group = self.layout.groups[number]
        order = self.layout.sequences
        leaves = [embedded.vectors[number]]
        leaves += [embedded.sequences[order.index(n)] for n in group.sequences]
        if all(leaf.grad is None for leaf in leaves):
            return None
        pieces = [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves]
        for place, n in enumerate(group.features):
            if self.layout.features[n].kind == "mean":
                size = plan.lists[n].offsets.diff().clamp(min=1)
                pieces[0][:, place] /= size.to(pieces[0].dtype)[:, None]
        flat = [piece.reshape(-1, group.dim) for piece in pieces]
        return flat[0] if len(flat) == 1 else torch.cat(flat)
