"""Wide & Deep: linear weights beside a deep network."""

from __future__ import annotations

from math import sqrt

import torch
from torch import Generator, Tensor, nn

from slipstream.config.kinds import Count
from slipstream.models.deepfm import linear_part
from slipstream.models.features import pick, width
from slipstream.models.inputs import ModelInputs
from slipstream.models.layers import dense_norm, mlp
from slipstream.models.model import Model, ModelConfig
from slipstream.tables.spec import Embedded, Init


class WideDeep(Model):
    """A linear model and a deep network, their logits added (Cheng et al., 2016).

    Each id has a vector for the deep part and, in a second table (`<table>/linear`), a weight for
    the wide part. Crossed columns are not made here: a crossed column of the data set is a column
    as any other. Sequence columns are pooled (mean).
    """

    class Config(ModelConfig, frozen=True):
        """Sizes of Wide & Deep; as published."""

        dim: Count = 32  # elements of a row where a table has no dim of its own
        deep: tuple[Count, ...] = (1024, 512, 256)  # hidden layers; a last one of 1 is added

    def __init__(self, inputs: ModelInputs, config: Config, generator: Generator) -> None:
        super().__init__(inputs, config, generator)
        init = Init("normal", sqrt(1 / config.dim))
        self.layout = inputs.layout(config.dim, init, linear=True)
        columns, dense = len(inputs.schema.columns), len(inputs.schema.dense)
        self.norm = dense_norm(inputs, config.normalize_dense)
        self.features = pick(
            self.layout, range(columns), generator, normalize=config.normalize_embedded
        )
        self.weights = pick(self.layout, range(columns, 2 * columns), generator)
        self.dense_weights = nn.Parameter(torch.zeros(dense))
        sizes = (dense + width(self.layout, range(columns)), *config.deep, 1)
        self.deep = mlp(sizes, generator, last="none")

    def forward(self, dense: Tensor, embedded: Embedded) -> Tensor:
        """The logits `[B]` of examples with dense values `[B, D]` and these embedding vectors."""
        dense = self.norm(dense)
        vectors = [part(embedded.vectors).flatten(1) for part in self.features]
        deep = self.deep(torch.cat([dense, *vectors], 1)).squeeze(1)
        return linear_part(dense, self.dense_weights, self.weights, embedded) + deep
