"""Selects and projects the vectors of a lookup for a model."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Generator, Tensor, nn

from slipstream.errors import ConfigError
from slipstream.models.layers import normal
from slipstream.tables.spec import Layout


class Project(nn.Module):  # type: ignore[misc]
    """Projects `count` vectors from `own` elements to `dim`, and optionally normalizes them first.

    If both dimensions are equal, there is no projection.
    """

    def __init__(self, count: int, own: int, dim: int, normalize: bool, generator: Generator):
        super().__init__()
        if normalize and own == 1:
            raise ConfigError("normalize_embedded leaves nothing of a vector of dim 1.")
        self.own = own
        self.scale = nn.Parameter(torch.ones(count, own)) if normalize else None
        self.shift = nn.Parameter(torch.zeros(count, own)) if normalize else None
        self.project = None
        if own != dim:
            self.project = normal(generator, sqrt(2 / (own + dim)), count, own, dim)

    def forward(self, vectors: Tensor) -> Tensor:
        """`[..., count, own]` to `[..., count, dim]`."""
        if self.scale is not None:
            vectors = F.layer_norm(vectors, (self.own,)) * self.scale + self.shift
        if self.project is not None:
            vectors = torch.einsum("...fd,fde->...fe", vectors, self.project)
        return vectors


class SameDimFeatures(nn.Module):  # type: ignore[misc]
    """Features whose tables have the same dimension, in the order of the layout.

    The order does not depend on the groups, so that dense weights still fit when a table gets
    another optimizer or storage.
    """

    def __init__(self, layout: Layout, features: Sequence[int], adapt: nn.Module) -> None:
        super().__init__()
        self.groups = sorted({layout.place(feature)[0] for feature in features})
        grouped = [feature for group in self.groups for feature in layout.groups[group].features]
        index = [grouped.index(feature) for feature in features]
        as_they_are = index == list(range(len(grouped)))
        chosen = None if as_they_are else torch.tensor(index)
        self.register_buffer("index", chosen, persistent=False)
        self.adapt = adapt

    @property
    def as_they_are(self) -> bool:
        """Whether the result is the vectors of one group, unchanged."""
        done = (self.index, self.adapt.scale, self.adapt.project)
        return len(self.groups) == 1 and all(change is None for change in done)

    def forward(self, vectors: tuple[Tensor, ...]) -> Tensor:
        """The features of a lookup's `vectors`, `[B, features, dim]`."""
        picked_vectors = [vectors[group] for group in self.groups]
        picked = picked_vectors[0] if len(picked_vectors) == 1 else torch.cat(picked_vectors, 1)
        return self.adapt(picked if self.index is None else picked.index_select(1, self.index))


def pick(
    layout: Layout,
    features: Sequence[int],
    generator: Generator,
    *,
    dim: int | None = None,
    normalize: bool = False,
) -> nn.ModuleList:
    """Features grouped by the dimension of their tables, in the order of the first feature.

    Args:
        layout: The layout the features are of.
        features: Their numbers in it, ascending.
        generator: Where projections are drawn from.
        dim: The dimension to bring them to; None leaves each as it is.
        normalize: Normalize each vector over its elements.
    """
    by_dim: dict[int, list[int]] = {}
    for feature in features:
        by_dim.setdefault(layout.table(layout.features[feature].table).dim, []).append(feature)
    return nn.ModuleList(
        SameDimFeatures(layout, same, Project(len(same), own, dim or own, normalize, generator))
        for own, same in by_dim.items()
    )


def width(layout: Layout, features: Sequence[int]) -> int:
    """Elements of the vectors of these features side by side."""
    return sum(layout.table(layout.features[feature].table).dim for feature in features)
