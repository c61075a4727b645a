"""The base class of all models, and of their options."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Generator, Tensor, nn

from slipstream.config.section import Settings
from slipstream.models.inputs import ModelInputs
from slipstream.tables.spec import Embedded, Layout


class ModelConfig(Settings, frozen=True):
    """The options of every model; a model adds its own."""

    normalize_dense: bool = False  # dense values less their mean, divided by their deviation
    normalize_embedded: bool = False  # layer normalization of each embedding vector


class Model(nn.Module):  # type: ignore[misc]
    """The dense part of a model, and the layout of the embedding tables it reads.

    Args:
        inputs: Description of the data set.
        config: The model's options.
        generator: Source of the initial weights.
    """

    Config: ClassVar[type[ModelConfig]]
    layout: Layout
    own_kernels: ClassVar[bool] = False
    """Whether our own kernels compute all of it on a GPU, so that compiling it is useless."""

    def __init__(self, inputs: ModelInputs, config: Any, generator: Generator) -> None:  # noqa: ARG002
        super().__init__()

    @property
    def reads_slots(self) -> bool:
        """Whether it reads rows from their slots itself, so that a lookup copies no vectors."""
        return False

    def forward(self, dense: Tensor, embedded: Embedded) -> Tensor:
        """The logits `[B]` of examples with dense values `[B, D]` and these embedding vectors."""
        raise NotImplementedError
