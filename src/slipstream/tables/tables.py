"""All embedding tables of a model: looked up and updated as a plan says."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Protocol

import torch
from torch import Tensor

from slipstream.arrays import Array
from slipstream.tables.gradients import gradient_vectors
from slipstream.tables.init import fill
from slipstream.tables.kernels import cpu, reference
from slipstream.tables.mover import BeforeWrite, Clock, Mover
from slipstream.tables.plan import GroupPlan, Plan, RowSlots
from slipstream.tables.spec import Embedded, Layout
from slipstream.tables.store import RowStore

KERNELS: dict[str, ModuleType] = {"cpu": cpu, "reference": reference}


class RowMover(Protocol):
    """What carries rows between the tiers."""

    clock: Clock

    def keep(self, rows_by_group: Sequence[RowSlots], step: int = 0) -> None:
        """Bring in the rows that are there before the first step; `step` steps are done."""

    def flush(self) -> None:
        """Write rows in the fast tier back, without sending them away."""

    def close(self) -> None:
        """Finish what is under way and end."""


class Embeddings:
    """The rows of every table of a layout, and the kernels that read and update them.

    Args:
        layout: Tables and features.
        seed: Of the first values; None leaves zeros, to be filled otherwise.
        kernels: cpu, or reference: plain PyTorch, for checks.
        folder: Keep the rows in new mapped files there instead of in memory.
        slots: The size of a fast tier for each group; None trains in the slow store itself.
        device: Where vectors are given to; rows stay on the host.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        seed: int | None = 0,
        kernels: str = "cpu",
        folder: Path | None = None,
        slots: Sequence[int] | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.layout = layout
        self.device = torch.device(device)
        self._kernels = KERNELS[kernels]
        if kernels == "cpu":
            _warn_of_slow_optimizers(layout)
        self.stores = [
            RowStore(group, None if folder is None else folder / f"rows-{number}.bin")
            for number, group in enumerate(layout.groups)
        ]
        if seed is not None:
            for store in self.stores:
                fill(store, seed)
        self.before_write: BeforeWrite = _nothing
        self.fast: list[RowStore] = []
        self.mover: RowMover | None = None
        if slots is not None:
            pairs = zip(layout.groups, slots, strict=True)
            self.fast = [RowStore(group, slots=size) for group, size in pairs]
            self.mover = Mover(
                self.stores, self.fast, lambda group, rows: self.before_write(group, rows)
            )

    def keep(self, rows_by_group: Sequence[RowSlots], step: int = 0) -> None:
        """Bring in the rows that are in the fast tier before the first step; `step` are done."""
        if self.mover is not None:
            self.mover.keep(rows_by_group, step)

    def prepare(self, plan: Plan) -> None:
        """Begin to fetch what a coming step needs; plans come in the order of their steps."""
        if isinstance(self.mover, Mover):
            self.mover.prepare(plan)

    def arrive(self, plan: Plan) -> None:
        """Have everything that a step needs where its plan says."""
        if isinstance(self.mover, Mover):
            self.mover.arrive(plan)

    def leave(self, plan: Plan) -> None:
        """Send away what is not needed after a step."""
        if isinstance(self.mover, Mover):
            self.mover.leave(plan)

    def clock(self) -> Clock:
        """What moving rows has taken since this was asked last."""
        if self.mover is None:
            return Clock()
        spent, self.mover.clock = self.mover.clock, Clock()
        return spent

    def flush(self) -> None:
        """Write rows in use back, so that the slow store has all rows as they are now."""
        if self.mover is not None:
            self.mover.flush()

    def close(self) -> None:
        """End what runs in the background."""
        if self.mover is not None:
            self.mover.close()

    def lookup(self, groups: Sequence[GroupPlan], *, gradients: bool = True) -> Embedded:
        """The vectors of a batch; with `gradients` they are leaves that collect their gradient."""
        vectors, sequences, lengths = [], {}, {}
        for number, (group, plan) in enumerate(zip(self.layout.groups, groups, strict=True)):
            store = self._tier(plan)[number]
            first, *others = self._kernels.lookup(self.layout, group, store, plan)
            vectors.append(first.to(self.device))
            for feature, steps in zip(group.sequences, others, strict=True):
                sequences[feature] = steps.to(self.device)
                lengths[feature] = plan.lists[feature].offsets.diff().to(self.device)
        if gradients:
            for tensor in (*vectors, *sequences.values()):
                tensor.requires_grad_()
        order = self.layout.sequences
        return Embedded(
            tuple(vectors), tuple(sequences[n] for n in order), tuple(lengths[n] for n in order)
        )

    def update(
        self, groups: Sequence[GroupPlan], *embedded: Embedded, step: int, factor: float = 1.0
    ) -> None:
        """Update the rows by the gradients that a lookup has collected."""
        gradients = [self._gradient(n, plan, embedded) for n, plan in enumerate(groups)]
        self.update_rows(groups, gradients, step=step, factor=factor)

    def update_rows(
        self,
        groups: Sequence[GroupPlan],
        gradients: Sequence[Tensor | None],
        *,
        step: int,
        factor: float = 1.0,
    ) -> None:
        """Update the rows by the gradient vectors of each group, by their numbers."""
        for number, (plan, gradient) in enumerate(zip(groups, gradients, strict=True)):
            store = self._tier(plan)[number]
            if gradient is not None:
                if plan.fill is None and plan.touched is not None:
                    self.before_write(number, plan.touched.rows.numpy())
                lr = store.group.optimizer.lr * factor
                self._kernels.update(store, plan, gradient, lr, step)

    def _tier(self, plan: GroupPlan) -> list[RowStore]:
        """Where the slots of a plan are: the slow store, unless it brings rows into the fast."""
        return self.stores if plan.fill is None else self.fast

    def _gradient(self, number: int, plan: GroupPlan, parts: Sequence[Embedded]) -> Tensor | None:
        """The gradient vectors of a group as `GradientIndex` numbers them."""
        group = self.layout.groups[number]
        order = self.layout.sequences
        leaves = [[part.vectors[number] for part in parts]]
        leaves += [[part.sequences[order.index(n)] for part in parts] for n in group.sequences]
        if all(leaf.grad is None for some in leaves for leaf in some):
            return None
        vectors, *sequences = (_joined_gradient(some) for some in leaves)
        store = self._tier(plan)[number]
        return gradient_vectors(self.layout, group, store, plan, vectors, sequences)


def _joined_gradient(parts: Sequence[Tensor]) -> Tensor:
    pieces = [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in parts]
    return (pieces[0] if len(pieces) == 1 else torch.cat(pieces)).cpu()


def _warn_of_slow_optimizers(layout: Layout) -> None:
    for name in sorted({g.optimizer.name for g in layout.groups if g.optimizer.kernel is None}):
        warnings.warn(
            f"The row optimizer {name} has no compiled kernel: its updates run in plain PyTorch, "
            "which is slow and gives the right result.",
            stacklevel=3,
        )


def _nothing(group: int, rows: Array) -> None:
    """Rows may change freely."""
