"""Dense weights in one row on a device, moved by one kernel that a recorded step can hold."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from slipstream.arrays import Array
from slipstream.config.sections import DenseSettings
from slipstream.errors import ConfigError
from slipstream.gpu.kernels import dense_update as kernel
from slipstream.pipeline.dense import learning_rate

PARAMETERS = 6
_NUMBERS = {torch.float32, torch.float64}
_BETAS = (0.9, 0.999)
_EPS = {"sgd": 0.0, "adagrad": 1e-10, "adam": 1e-8}
_KEPT = {"sgd": (), "adagrad": ("sum",), "adam": ("exp_avg", "exp_avg_sq")}


class FlatOptimizer:
    """Moves the weights of a model as PyTorch's optimizer of that name does.

    Args:
        model: The model; its weights become views of one tensor.
        config: How they move.
    """

    def __init__(self, model: nn.Module, config: DenseSettings) -> None:
        self.config = config
        self._weights = [one for one in model.parameters() if one.requires_grad]
        kinds = {one.dtype for one in self._weights}
        if len(kinds) > 1 or not kinds <= _NUMBERS:
            told = " and ".join(sorted(str(kind).removeprefix("torch.") for kind in kinds))
            raise ConfigError(
                f"The weights of the module are {told}; a step on a GPU moves float32 ones, all "
                "at once. Use module.float(), and precision bf16 for products in bfloat16."
            )
        self.step_number = 0
        like = self._weights[0] if self._weights else torch.zeros(1)
        self._flat = torch.cat([one.detach().reshape(-1) for one in self._weights] or [like])
        self._kept = [torch.zeros_like(self._flat) for _ in _KEPT[config.optimizer]]
        self._views: dict[Tensor, slice] = {}
        end = 0
        for weight in self._weights:
            mine = slice(end, end + weight.numel())
            weight.data = self._flat[mine].view(weight.shape)
            self._views[weight] = mine
            end = mine.stop
        self.parameters = torch.zeros(PARAMETERS, dtype=torch.float64, device=self._flat.device)

    def set_parameters(self, factor: float, step: int, into: Array) -> None:
        """Write down what a step moves weights with: `factor` of the learning rate."""
        name = self.config.optimizer
        rate, correction = learning_rate(self.config) * factor, 1.0
        if name == "adam":
            rate /= 1 - _BETAS[0] ** step
            correction = (1 - _BETAS[1] ** step) ** 0.5
        eps = _EPS[name]
        decay = self.config.weight_decay
        into[:] = rate, eps, decay, correction, 1 - _BETAS[0], 1 - _BETAS[1]

    def move(self, parameters: Tensor) -> None:
        """Move all weights by their gradients, as `parameters` on the device say."""
        if not self._weights:
            return
        gradients = [
            (torch.zeros_like(one) if one.grad is None else one.grad).reshape(-1)
            for one in self._weights
        ]
        gradient = torch.cat(gradients)
        if self.config.clip is not None:
            norm = torch.linalg.vector_norm(gradient)
            gradient *= (self.config.clip / (norm + 1e-6)).clamp(max=1)
        first, second = (*self._kept, self._flat, self._flat)[:2]
        empty = self._flat[:0]
        kept = len(self._kept)
        kernel.move(
            self._flat,
            gradient,
            first if kept > 0 else empty,
            second if kept > 1 else empty,
            parameters,
            kernel.NUMBER[self.config.optimizer],
        )
        for weight in self._weights:
            weight.grad = None

    def step(self, factor: float) -> None:
        """Move all weights now, outside a recorded step."""
        self.step_number += 1
        host = torch.zeros(PARAMETERS, dtype=torch.float64)
        self.set_parameters(factor, self.step_number, host.numpy())
        self.parameters.copy_(host)
        self.move(self.parameters)

    def state_of(self, weight: Tensor) -> dict[str, Tensor]:
        """What is kept beside a weight, by PyTorch's names."""
        if not self._kept:
            return {}
        named = zip(_KEPT[self.config.optimizer], self._kept, strict=True)
        mine = self._views[weight]
        state = {name: kept[mine].view(weight.shape) for name, kept in named}
        return {"step": torch.tensor(float(self.step_number)), **state}

    def load_state_of(self, weight: Tensor, state: Mapping[str, Tensor]) -> None:
        """Take over what `state_of` gave."""
        for name, kept in zip(_KEPT[self.config.optimizer], self._kept, strict=True):
            saved = state.get(name)
            if saved is None:
                kept[self._views[weight]].zero_()
            else:
                kept[self._views[weight]] = saved.to(kept).reshape(-1)
        self.step_number = int(state.get("step", torch.zeros(())))
