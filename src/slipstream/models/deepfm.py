"""DeepFM: linear weights, a factorization machine and a deep network on the same vectors."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from slipstream.config.kinds import Count
from slipstream.models.features import pick
from slipstream.models.inputs import ModelInputs
from slipstream.models.layers import dense_norm, mlp, normal
from slipstream.models.model import Model, ModelConfig
from slipstream.tables.spec import Embedded, Init

STD = 0.01


class DeepFm(Model):
    """A factorization machine and a deep network side by side (Guo et al., 2017).

    Each id has a vector and, in a second table (`<table>/linear`), a single weight. A dense value
    has both too and multiplies them. Sequence columns are pooled (mean).
    """

    class Config(ModelConfig, frozen=True):
        """Sizes of DeepFM; as published for Criteo."""

        dim: Count = 10  # elements of the vectors
        deep: tuple[Count, ...] = (400, 400, 400)  # hidden layers; a last one of 1 is added

    def __init__(self, inputs: ModelInputs, config: Config, generator: Generator) -> None:
        super().__init__(inputs, config, generator)
        self.layout = inputs.layout(config.dim, Init("normal", STD), linear=True)
        columns, dense = len(inputs.schema.columns), len(inputs.schema.dense)
        self.norm = dense_norm(inputs, config.normalize_dense)
        self.features = pick(
            self.layout,
            range(columns),
            generator,
            dim=config.dim,
            normalize=config.normalize_embedded,
        )
        self.weights = pick(self.layout, range(columns, 2 * columns), generator)
        self.dense_weights = nn.Parameter(torch.zeros(dense))
        self.dense_vectors = normal(generator, STD, dense, config.dim)
        sizes = ((dense + columns) * config.dim, *config.deep, 1)
        self.deep = mlp(sizes, generator, last="none")

    def forward(self, dense: Tensor, embedded: Embedded) -> Tensor:
        """The logits `[B]` of examples with dense values `[B, D]` and these embedding vectors."""
        dense = self.norm(dense)
        scaled = dense.unsqueeze(2) * self.dense_vectors
        vectors = torch.cat([scaled, *(part(embedded.vectors) for part in self.features)], 1)
        first_order = linear_part(dense, self.dense_weights, self.weights, embedded)
        # The sum over all pairs of their products, without making the pairs.
        pairs = 0.5 * (vectors.sum(1).square() - vectors.square().sum(1)).sum(1)
        return first_order + pairs + self.deep(vectors.flatten(1)).squeeze(1)


def linear_part(
    dense: Tensor, dense_weights: Tensor, weights: nn.ModuleList, embedded: Embedded
) -> Tensor:
    """The sum of an example's linear weights, those of dense values times the values: `[B]`.

    There is no constant: the deep network's last layer has one.
    """
    total = (dense * dense_weights).sum(1)
    for part in weights:
        total = total + part(embedded.vectors).sum((1, 2))
    return total
