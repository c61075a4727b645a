"""From what a lookup gives to the vectors a model works on."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Generator, Tensor, nn

from slipstream.errors import ConfigError
from slipstream.models.layers import normal
from slipstream.tables.spec import Layout


class Adapt(nn.Module):  # type: ignore[misc]
    """Vectors of features, normalized if asked, brought to the model's dimension if another.

    Args:
        count: Features.
        own: Elements of their vectors.
        dim: Elements wanted; a learned projection for each feature, without bias, makes them.
        normalize: Normalize each vector over its elements first.
        generator: Where the projections are drawn from.
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


class Alike(nn.Module):  # type: ignore[misc]
    """Features whose tables have the same dimension, in the order of the layout.

    The order does not depend on the groups, so that dense weights still fit when a table gets
    another optimizer or storage.

    Args:
        layout: The layout they are of.
        features: Their numbers in it, ascending.
        adapt: What is done to their vectors.
    """

    def __init__(self, layout: Layout, features: Sequence[int], adapt: nn.Module) -> None:
        super().__init__()
        self.groups = sorted({layout.place(feature)[0] for feature in features})
        held = [feature for group in self.groups for feature in layout.groups[group].features]
        index = [held.index(feature) for feature in features]
        as_they_are = index == list(range(len(held)))
        chosen = None if as_they_are else torch.tensor(index)
        self.register_buffer("index", chosen, persistent=False)
        self.adapt = adapt

    @property
    def as_they_are(self) -> bool:
        """Whether it gives the vectors of one group, and nothing is done to them."""
        done = (self.index, self.adapt.scale, self.adapt.project)
        return len(self.groups) == 1 and all(one is None for one in done)

    def forward(self, vectors: tuple[Tensor, ...]) -> Tensor:
        """The features of a lookup's `vectors`, `[B, features, dim]`."""
        mine = [vectors[group] for group in self.groups]
        picked = mine[0] if len(mine) == 1 else torch.cat(mine, 1)
        return self.adapt(picked if self.index is None else picked.index_select(1, self.index))


def pick(
    layout: Layout,
    features: Sequence[int],
    generator: Generator,
    *,
    dim: int | None = None,
    normalize: bool = False,
) -> nn.ModuleList:
    """One `Alike` for each dimension among the features, in the order of their first feature.

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
        Alike(layout, members, Adapt(len(members), own, dim or own, normalize, generator))
        for own, members in by_dim.items()
    )


def width(layout: Layout, features: Sequence[int]) -> int:
    """Elements of the vectors of these features side by side."""
    return sum(layout.table(layout.features[feature].table).dim for feature in features)
