"""Layers that the models share.

Initial weights are drawn in float32 from the generator of the caller, so they depend on its seed
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from typing import ClassVar, Literal, Protocol

import torch
from torch import Generator, Tensor, nn

from slipstream.errors import ConfigError
from slipstream.models.inputs import ModelInputs


def normal(generator: Generator, std: float, *shape: int) -> nn.Parameter:
    """A weight of independent normal values."""
    return nn.Parameter(torch.randn(*shape, generator=generator, dtype=torch.float32) * std)


def linear(
    inputs: int, outputs: int, generator: Generator, *, biases: Literal["normal", "zeros", "none"]
) -> nn.Linear:
    """A linear layer, its weights normal with variance `2 / (inputs + outputs)`.

    Biases are normal with variance `1 / outputs`, as DLRM has them; zeros; or none at all.
    """
    layer = nn.utils.skip_init(Linear, inputs, outputs, bias=biases != "none")
    layer.weight = normal(generator, sqrt(2 / (inputs + outputs)), outputs, inputs)
    if biases == "normal":
        layer.bias = normal(generator, sqrt(1 / outputs), outputs)
    elif biases == "zeros":
        nn.init.zeros_(layer.bias)
    return layer


class Linear(nn.Linear):  # type: ignore[misc]
    """A linear layer that is as fast on a GPU for any number of inputs.

    On a GPU a product whose inner size is no multiple of eight takes several times as long. So
    values and weights are padded with zeros; the values may be padded already.
    """

    def forward(self, values: Tensor) -> Tensor:
        """The layer's outputs, `[B, outputs]`."""
        lacking = -self.in_features % 8
        if not lacking or values.device.type != "cuda":
            return nn.functional.linear(values, self.weight, self.bias)
        if values.shape[-1] == self.in_features:
            values = nn.functional.pad(values, (0, lacking))
        weight = nn.functional.pad(self.weight, (0, lacking))
        return nn.functional.linear(values, weight, self.bias)


def mlp(
    sizes: Sequence[int],
    generator: Generator,
    *,
    last: Literal["relu", "sigmoid", "none"] = "relu",
    biases: Literal["normal", "zeros"] = "zeros",
) -> Mlp:
    """Linear layers of these sizes with ReLU between them.

    Args:
        sizes: Values in, after each layer, and out.
        generator: Source of the initial weights.
        last: What follows the last layer.
        biases: How biases start (see `linear`).
    """
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [linear(inputs, outputs, generator, biases=biases), nn.ReLU()]
    if layers and last != "relu":
        layers[-1:] = [nn.Sigmoid()] if last == "sigmoid" else []
    return Mlp(*layers)


class MlpKernel(Protocol):
    """An MLP as one operation in the forward pass and one in the backward pass."""

    def fits(self, values: Tensor, weight: Tensor) -> bool:
        """Whether the kernel supports the device and the types of values and weights."""

    def mlp(
        self,
        values: Tensor,
        weights: Sequence[Tensor],
        biases: Sequence[Tensor],
        *,
        relu_last: bool,
    ) -> Tensor:
        """The outputs of linear layers with ReLU between them."""


class Mlp(nn.Sequential):  # type: ignore[misc]
    """The layers of an MLP one after the other; a kernel may compute them in one operation."""

    kernel: ClassVar[MlpKernel | None] = None
    """Set by `slipstream.gpu` where there is a GPU."""

    def forward(self, values: Tensor) -> Tensor:
        """The result of the last layer, `[..., outputs]`."""
        layers = list(self)
        linears, others = layers[::2], layers[1::2]
        ends = others.pop() if others and isinstance(others[-1], nn.Sigmoid) else None
        if not (
            self.kernel is not None
            and linears
            and all(isinstance(layer, Linear) for layer in linears)
            and all(isinstance(layer, nn.ReLU) for layer in others)
            and self.kernel.fits(values, linears[0].weight)
        ):
            return super().forward(values)
        relu_last = len(others) == len(linears)
        weights, biases = [layer.weight for layer in linears], [layer.bias for layer in linears]
        values = self.kernel.mlp(values, weights, biases, relu_last=relu_last)
        return values if ends is None else ends(values)


class FixedNorm(nn.Module):  # type: ignore[misc]
    """Dense values minus their mean, divided by their deviation; 0 for a deviation of 0."""

    def __init__(self, dense: Sequence[str], statistics: tuple[Sequence[float], Sequence[float]]):
        super().__init__()
        mean, std = (torch.as_tensor(values, dtype=torch.float32) for values in statistics)
        for kind, values in (("means", mean), ("deviations", std)):
            if values.shape != (len(dense),):
                raise ConfigError(f"There are {len(dense)} dense values, but not as many {kind}.")
        for name, middle, spread in zip(dense, mean.tolist(), std.tolist(), strict=True):
            if not (abs(middle) < float("inf") and 0 <= spread < float("inf")):
                raise ConfigError(
                    f"The dense value {name!r} has mean {middle} and deviation {spread}, which "
                    "cannot be normalized with."
                )
        self.register_buffer("mean", mean)
        self.register_buffer("std", torch.where(std > 0, std, torch.ones_like(std)))

    def forward(self, dense: Tensor) -> Tensor:
        """The values normalized, `[B, D]`."""
        return (dense - self.mean) / self.std


def dense_norm(inputs: ModelInputs, wanted: bool) -> nn.Module:
    """The normalization of dense values, or nothing."""
    if wanted and inputs.statistics is None:
        raise ConfigError("normalize_dense needs statistics: the mean and deviation of each value.")
    if not wanted and inputs.statistics is not None:
        raise ConfigError("statistics are given, but normalize_dense is off: turn it on.")
    if inputs.statistics is None or not inputs.schema.dense:
        return nn.Identity()
    return FixedNorm(inputs.schema.dense, inputs.statistics)
