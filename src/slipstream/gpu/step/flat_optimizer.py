"""Dense weights in one row on a device, updated by one kernel that a recorded step can hold."""

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
_STATES = {"sgd": (), "adagrad": ("sum",), "adam": ("exp_avg", "exp_avg_sq")}


class FlatOptimizer:
    """Updates the weights of a model as PyTorch's optimizers do, as views of one tensor."""

    def __init__(self, model: nn.Module, config: DenseSettings) -> None:
        self.config = config
        self._weights = [weight for weight in model.parameters() if weight.requires_grad]
        kinds = {weight.dtype for weight in self._weights}
        if len(kinds) > 1 or not kinds <= _NUMBERS:
            names = " and ".join(sorted(str(kind).removeprefix("torch.") for kind in kinds))
            raise ConfigError(
                f"The weights of the module are {names}; a step on a GPU moves float32 ones, all "
                "at once. Use module.float(), and precision bf16 for products in bfloat16."
            )
        self.step_number = 0
        like = self._weights[0] if self._weights else torch.zeros(1)
        self._flat = torch.cat([weight.detach().reshape(-1) for weight in self._weights] or [like])
        self._states = [torch.zeros_like(self._flat) for _ in _STATES[config.optimizer]]
        self._views: dict[Tensor, slice] = {}
        end = 0
        for weight in self._weights:
            view = slice(end, end + weight.numel())
            weight.data = self._flat[view].view(weight.shape)
            self._views[weight] = view
            end = view.stop
        self.parameters = torch.zeros(PARAMETERS, dtype=torch.float64, device=self._flat.device)

    def set_parameters(self, factor: float, step: int, into: Array) -> None:
        """Write the numbers with which a step updates weights, at `factor` of the learning rate."""
        name = self.config.optimizer
        rate, correction = learning_rate(self.config) * factor, 1.0
        if name == "adam":
            rate /= 1 - _BETAS[0] ** step
            correction = (1 - _BETAS[1] ** step) ** 0.5
        eps = _EPS[name]
        decay = self.config.weight_decay
        into[:] = rate, eps, decay, correction, 1 - _BETAS[0], 1 - _BETAS[1]

    def update(self, parameters: Tensor) -> None:
        """Update all weights by their gradients; `parameters` are on the device."""
        if not self._weights:
            return
        gradients = [
            (torch.zeros_like(weight) if weight.grad is None else weight.grad).reshape(-1)
            for weight in self._weights
        ]
        gradient = torch.cat(gradients)
        if self.config.clip is not None:
            norm = torch.linalg.vector_norm(gradient)
            gradient *= (self.config.clip / (norm + 1e-6)).clamp(max=1)
        empty = self._flat[:0]
        states = (*self._states, empty, empty)[:2]
        number = kernel.NUMBER[self.config.optimizer]
        kernel.update_weights(self._flat, gradient, *states, parameters, number)
        for weight in self._weights:
            weight.grad = None

    def step(self, factor: float) -> None:
        """Update all weights now, outside a recorded step."""
        self.step_number += 1
        host = torch.zeros(PARAMETERS, dtype=torch.float64)
        self.set_parameters(factor, self.step_number, host.numpy())
        self.parameters.copy_(host)
        self.update(self.parameters)

    def state_of(self, weight: Tensor) -> dict[str, Tensor]:
        """The optimizer state of a weight, by PyTorch's names."""
        if not self._states:
            return {}
        named = zip(_STATES[self.config.optimizer], self._states, strict=True)
        view = self._views[weight]
        state = {name: values[view].view(weight.shape) for name, values in named}
        return {"step": torch.tensor(float(self.step_number)), **state}

    def load_state_of(self, weight: Tensor, state: Mapping[str, Tensor]) -> None:
        """Restore the result of `state_of`."""
        for name, values in zip(_STATES[self.config.optimizer], self._states, strict=True):
            saved = state.get(name)
            if saved is None:
                values[self._views[weight]].zero_()
            else:
                values[self._views[weight]] = saved.to(values).reshape(-1)
        self.step_number = int(state.get("step", torch.zeros(())))
