"""What every model is."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Generator, Tensor, nn

from slipstream.models.config import ModelConfig
from slipstream.models.inputs import Inputs
from slipstream.tables.spec import Embedded, Layout


class Model(nn.Module):  # type: ignore[misc]
    """The dense part of a model, and the layout of the embedding tables it reads.

    Args:
        inputs: The data set it is for.
        config: Its options.
        generator: Where its weights are drawn from.
    """

    Config: ClassVar[type[ModelConfig]]
    layout: Layout
    own_kernels: ClassVar[bool] = False
    """Whether all of it is kernels of ours on a GPU, so that there is nothing to compile."""

    def __init__(self, inputs: Inputs, config: Any, generator: Generator) -> None:  # noqa: ARG002
        super().__init__()

    @property
    def reads_slots(self) -> bool:
        """Whether it reads rows by itself where a lookup says which slots they are in."""
        return False

    def forward(self, dense: Tensor, embedded: Embedded) -> Tensor:
        """The logits `[B]` of inputs with dense values `[B, D]` and these embedding vectors."""
        raise NotImplementedError
