"""DCN-V2: layers that cross all values with each other, and a deep network."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Generator, Tensor, nn

from slipstream.config.kinds import Amount, Count
from slipstream.models.features import pick, width
from slipstream.models.inputs import ModelInputs
from slipstream.models.layers import dense_norm, linear, mlp
from slipstream.models.model import Model, ModelConfig
from slipstream.tables.spec import Embedded, Init


class Dcn(Model):
    """The deep and cross network in its second version (Wang et al., 2021).

    Sequence columns are pooled (mean). Dense values and embedding vectors stand side by side, so
    that every table may have its own dimension.
    """

    class Config(ModelConfig, frozen=True):
        """Sizes of DCN-V2."""

        dim: Count = 16  # elements of a row where a table has no dim of its own
        cross: Amount = 3  # crossing layers; 0 leaves a deep network
        rank: Amount = 0  # inner size of the crossing matrices; 0 is full matrices
        deep: tuple[Count, ...] = (768, 768)  # hidden layers of the deep network
        structure: Literal["stacked", "parallel"] = "stacked"  # stacked: deep after crossing

    def __init__(self, inputs: ModelInputs, config: Config, generator: Generator) -> None:
        super().__init__(inputs, config, generator)
        self.layout = inputs.layout(config.dim, Init())
        features = range(len(self.layout.features))
        self.norm = dense_norm(inputs, config.normalize_dense)
        self.features = pick(self.layout, features, generator, normalize=config.normalize_embedded)
        size = len(inputs.schema.dense) + width(self.layout, features)
        self.cross = nn.ModuleList(
            _matrix(size, config.rank, generator) for _ in range(config.cross)
        )
        self.deep = mlp((size, *config.deep), generator)
        self.stacked = config.structure == "stacked"
        out = config.deep[-1] if config.deep else size
        self.last = linear(out if self.stacked else size + out, 1, generator, biases="zeros")

    def forward(self, dense: Tensor, embedded: Embedded) -> Tensor:
        """The logits `[B]` of examples with dense values `[B, D]` and these embedding vectors."""
        vectors = [part(embedded.vectors).flatten(1) for part in self.features]
        values = crossed = torch.cat([self.norm(dense), *vectors], 1)
        for layer in self.cross:
            crossed = values * layer(crossed) + crossed
        if self.stacked:
            return self.last(self.deep(crossed)).squeeze(1)
        return self.last(torch.cat([crossed, self.deep(values)], 1)).squeeze(1)


def _matrix(size: int, rank: int, generator: Generator) -> nn.Module:
    """The matrix and bias of one crossing layer, full or as a product of two narrow ones."""
    if not rank:
        return linear(size, size, generator, biases="zeros")
    return nn.Sequential(
        linear(size, rank, generator, biases="none"), linear(rank, size, generator, biases="zeros")
    )
