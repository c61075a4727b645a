"""DLRM: dense values through an MLP, dot products between all vectors, an MLP on top."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any, ClassVar, Protocol

import torch
from torch import Generator, Tensor, nn

from slipstream.config.kinds import Count
from slipstream.models.features import pick
from slipstream.models.inputs import ModelInputs
from slipstream.models.layers import dense_norm, mlp, normal
from slipstream.models.model import Model, ModelConfig
from slipstream.tables.spec import Embedded, Group, Init, InSlots


class Dlrm(Model):
    """The deep learning recommendation model (Naumov et al., 2019) with the dot interaction.

    Sequence columns are pooled (mean). Where there are no dense values, a learned vector
    replaces the output of the bottom MLP.
    """

    own_kernels = True

    class Config(ModelConfig, frozen=True):
        """Sizes of DLRM; as published for Criteo."""

        dim: Count = 16  # elements of the vectors that interact
        bottom: tuple[Count, ...] = (512, 256, 64)  # on dense values; one of dim is added
        top: tuple[Count, ...] = (512, 256)  # on the interactions; one of 1 is added

    def __init__(self, inputs: ModelInputs, config: Config, generator: Generator) -> None:
        super().__init__(inputs, config, generator)
        dim, dense = config.dim, len(inputs.schema.dense)
        self.layout = inputs.layout(dim, Init())
        self.norm = dense_norm(inputs, config.normalize_dense)
        sizes = (dense, *config.bottom, dim) if dense else ()
        self.bottom = mlp(sizes, generator, biases="normal")
        self.constant = None if dense else normal(generator, sqrt(1 / dim), dim)
        features = range(len(self.layout.features))
        self.features = pick(
            self.layout, features, generator, dim=dim, normalize=config.normalize_embedded
        )
        self.interaction = DotInteraction(1 + len(features))
        sizes = (dim + self.interaction.pairs, *config.top, 1)
        self.top = mlp(sizes, generator, last="none", biases="normal")

    @property
    def reads_slots(self) -> bool:
        """Whether its interaction reads rows from their slots: on a GPU, if all are single."""
        kernel, layout = self.interaction.rows_kernel, self.layout
        return (
            type(self) is Dlrm
            and kernel is not None
            and len(layout.groups) == len(self.features) == 1
            and all(feature.kind == "single" for feature in layout.features)
            and all(part.as_they_are for part in self.features)
            and kernel.reads(self.top[0].weight, layout.groups[0])
        )

    def forward(self, dense: Tensor, embedded: Embedded) -> Tensor:
        """The logits `[B]` of examples with dense values `[B, D]` and these embedding vectors."""
        if self.constant is None:
            first = self.bottom(self.norm(dense))
        else:
            first = self.constant.expand(dense.shape[0], -1)
        if embedded.in_slots:
            interactions = self.interaction.of_rows(first, embedded)
        else:
            interactions = self.interaction.of(
                first, [part(embedded.vectors) for part in self.features]
            )
        return self.top(interactions).squeeze(1)


class DotKernel(Protocol):
    """The dot interaction of vectors in one kernel."""

    def fits(self, first: Tensor, vectors: Tensor) -> bool:
        """Whether the kernel supports the device, the types and the sizes of these vectors."""

    def dot_interaction(self, first: Tensor, vectors: Tensor) -> Tensor:
        """The interaction of vectors `[B, dim]` and `[B, count, dim]`, with zeros behind it."""


class RowsKernel(Protocol):
    """The dot interaction of embedding rows that the kernel reads from their slots."""

    def reads(self, weight: Tensor, group: Group) -> bool:
        """Whether the kernel reads the rows of this group for a model with this weight."""

    def dot_interaction_of_rows(self, first: Tensor, vectors: Tensor, rows: InSlots) -> Tensor:
        """The interaction of vectors `[B, dim]` and rows; `vectors` collects their gradients."""


class DotInteraction(nn.Module):  # type: ignore[misc]
    """The first vector of an example, then the dot products of all pairs: `[B, dim + pairs]`.

    The pairs come as in DLRM, the lower triangle row by row: (1, 0), (2, 0), (2, 1), (3, 0) ...
    """

    kernel: ClassVar[DotKernel | None] = None
    rows_kernel: ClassVar[RowsKernel | None] = None
    """Both are set by `slipstream.gpu` where there is a GPU."""

    def __init__(self, count: int) -> None:
        super().__init__()
        row, column = torch.tril_indices(count, count, -1)
        self.pairs = len(row)
        pair = torch.zeros(count, count, dtype=torch.int64)
        pair[row, column] = pair[column, row] = torch.arange(self.pairs)
        self.register_buffer("lower", row * count + column, persistent=False)
        self.register_buffer("pair", pair.flatten(), persistent=False)

    def forward(self, vectors: Tensor) -> Tensor:
        """The interaction of `[B, count, dim]`."""
        return torch.cat([vectors[:, 0], _PairDots.apply(vectors, self.lower, self.pair)], 1)

    def of(self, first: Tensor, others: Sequence[Tensor]) -> Tensor:
        """The same of vectors `[B, dim]` and `[B, some, dim]` that are not put together yet.

        On a GPU it is one kernel, and some zeros follow that the next layer knows of.
        """
        if self.kernel is not None and first.device.type == "cuda":
            joined = others[0] if len(others) == 1 else torch.cat([*others], 1)
            first = _as_products(first)
            if self.kernel.fits(first, joined):
                return self.kernel.dot_interaction(first, joined)
        return self(torch.cat([first.unsqueeze(1), *others], 1))

    def of_rows(self, first: Tensor, embedded: Embedded) -> Tensor:
        """The same as `of`, on a GPU, with rows that are read from their slots."""
        (vectors,), (rows,) = embedded.vectors, embedded.in_slots
        assert self.rows_kernel is not None, "only such a kernel needs rows in slots"
        return self.rows_kernel.dot_interaction_of_rows(_as_products(first), vectors, rows)


def _as_products(first: Tensor) -> Tensor:
    """The vectors in the type that products on their device are computed in."""
    if torch.is_autocast_enabled(first.device.type):
        return first.to(torch.get_autocast_dtype(first.device.type))
    return first


class _PairDots(torch.autograd.Function):  # type: ignore[misc]
    """The dot products of pairs of vectors.

    PyTorch's own gradient scatters into the triangle and multiplies twice, once for either vector
    of a pair. A dot product is the same for both: filled into both triangles, one product does.
    """

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, lower: Tensor, pair: Tensor) -> Tensor:
        ctx.save_for_backward(vectors, pair)
        return torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1).index_select(1, lower)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        vectors, pair = ctx.saved_tensors
        count = vectors.shape[1]
        both = gradient.index_select(1, pair).unflatten(1, (count, count))
        both.diagonal(dim1=1, dim2=2).zero_()
        # Under autocast the products are narrower than the vectors.
        return torch.bmm(both, vectors.to(both.dtype)).to(vectors.dtype), None, None
