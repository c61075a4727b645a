"""The dense part of a model: its weights, their optimizer, precision and compilation."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from slipstream.config import Config
from slipstream.config.sections import DenseSettings
from slipstream.errors import ConfigError
from slipstream.tables.spec import Embedded

WORTH_COMPILING = 5000


class DenseOptimizer(NamedTuple):
    """An optimizer of PyTorch, and the learning rate that did best on the built-in data."""

    kind: type[torch.optim.Optimizer]
    lr: float


OPTIMIZERS = {
    "sgd": DenseOptimizer(torch.optim.SGD, 0.1),  # as in DLRM's own code
    "adagrad": DenseOptimizer(torch.optim.Adagrad, 0.01),
    "adam": DenseOptimizer(torch.optim.Adam, 0.001),
}


def learning_rate(config: DenseSettings) -> float:
    """The learning rate of the dense part."""
    return OPTIMIZERS[config.optimizer].lr if config.lr is None else config.lr


class WeightOptimizer(Protocol):
    """Updates all dense weights at once; their state has the names of PyTorch's optimizers."""

    def step(self, factor: float) -> None:
        """Update the weights with their gradients; `factor` multiplies the learning rate."""

    def state_of(self, weight: Tensor) -> Mapping[str, Any]:
        """The optimizer state of one weight."""

    def load_state_of(self, weight: Tensor, state: Mapping[str, Tensor]) -> None:
        """Restore the optimizer state of one weight."""


class DensePart:
    """A model's dense weights with their optimizer.

    Args:
        model: The model; returns logits for dense values and embedding vectors.
        config: The optimizer and its options.
        precision: fp32; tf32: products on a GPU have 10 bits of fraction; or bf16: products in
            bfloat16, weights and sums in float32.
        compiled: Whether to compile the model, which takes a while and makes each step faster.
        device: The device of the weights.
        optimizer: Creates the optimizer of the weights; None uses PyTorch's.
    """

    def __init__(
        self,
        model: nn.Module,
        config: DenseSettings,
        precision: str = "fp32",
        compiled: bool = False,
        *,
        device: torch.device | str = "cpu",
        optimizer: Callable[[nn.Module, DenseSettings], WeightOptimizer] | None = None,
    ) -> None:
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.config = config
        self.precision = precision
        if self.device.type != "cpu":
            torch.set_float32_matmul_precision("highest" if precision == "fp32" else "high")
        self.flat = None if optimizer is None else optimizer(self.model, config)
        self._call = torch.compile(model, dynamic=False) if compiled else model
        self._dtype = next((parameter.dtype for parameter in model.parameters()), torch.float32)

    @cached_property
    def _optimizer(self) -> torch.optim.Optimizer:
        """Created when it is needed: its import takes seconds, and predictions do not need it."""
        return _optimizer(self.model, self.config)

    def logits(
        self, dense: Tensor, embedded: Embedded, *, train: bool = True, widen: bool = True
    ) -> Tensor:
        """The logits of a batch, in float32 (or wider, if the model is).

        Only training uses the compiled model: compiling again for scoring takes too long.
        """
        with self._autocast():
            logits = (self._call if train else self.model)(
                dense.to(self.device, self._dtype), embedded
            )
        return logits.float() if widen and logits.dtype == torch.bfloat16 else logits

    @property
    def weights(self) -> dict[str, Tensor]:
        """The weights by name, on the CPU."""
        return {name: value.cpu() for name, value in self.model.state_dict().items()}

    @property
    def finite(self) -> bool:
        """Whether every weight is a finite number."""
        return all(bool(torch.isfinite(parameter).all()) for parameter in self.model.parameters())

    def step(self, factor: float) -> None:
        """Update the weights with their gradients; `factor` multiplies the learning rate."""
        if self.flat is not None:
            self.flat.step(factor)
            return
        if self.config.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate(self.config) * factor
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)

    def state_dict(self) -> dict[str, Tensor]:
        """The weights and their optimizer state by name, on the CPU."""
        state = {f"model.{name}": value for name, value in self.weights.items()}
        for name, weight in self.model.named_parameters():
            for key, value in self._state_of(weight).items():
                if torch.is_tensor(value):
                    state[f"optimizer.{name}.{key}"] = value.cpu()
        return state

    def _state_of(self, weight: Tensor) -> Mapping[str, Any]:
        if self.flat is not None:
            return self.flat.state_of(weight)
        return self._optimizer.state[weight]

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore the result of `state_dict`, with the same kind of optimizer."""
        self.load_weights(state)
        for name, weight in self.model.named_parameters():
            start = f"optimizer.{name}."
            saved = {key: value for key, value in state.items() if key.startswith(start)}
            # Copied: loaded tensors may be read-only memory.
            state_of = {key.removeprefix(start): value.clone() for key, value in saved.items()}
            if self.flat is not None:
                self.flat.load_state_of(weight, state_of)
            else:
                self._optimizer.state[weight] = state_of

    def load_weights(self, state: Mapping[str, Tensor]) -> None:
        """Restore the weights alone."""
        self.model.load_state_dict(weights_for(self.model, state))

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.precision == "bf16":
            return torch.autocast(self.device.type, dtype=torch.bfloat16)
        return nullcontext()


def weights_for(model: nn.Module, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights in a saved state, by the model's names; an error if a shape differs."""
    weights = {}
    for name, value in model.state_dict().items():
        saved = state.get(f"model.{name}")
        if saved is None:
            raise ConfigError(f"The saved dense part has no weight {name!r}: another model?")
        if saved.shape != value.shape:
            raise ConfigError(
                f"The saved weight {name!r} has shape {tuple(saved.shape)}, the model's has "
                f"{tuple(value.shape)}: are its sizes the same?"
            )
        weights[name] = saved
    return weights


def worth_compiling(config: Config, steps: int) -> bool:
    """Whether to compile the dense part: if `compile` is on, or in a long run with a compiler."""
    if config.compile == "auto":
        return steps >= WORTH_COMPILING and compiler() is not None
    if config.compile == "on" and compiler() is None:
        raise ConfigError(
            "compile is on, but no C++ compiler is found. Install one (g++ or clang++), name it "
            "in the environment variable CXX, or leave compile at auto."
        )
    return config.compile == "on"


def compiler() -> str | None:
    """The C++ compiler that torch would use, or None."""
    names = [os.environ.get("CXX"), "g++", "clang++"]
    return next((name for name in names if name and shutil.which(name)), None)


def _optimizer(model: nn.Module, config: DenseSettings) -> torch.optim.Optimizer:
    weights = list(model.parameters())
    options: dict[str, Any] = {"lr": learning_rate(config), "weight_decay": config.weight_decay}
    return OPTIMIZERS[config.optimizer].kind(weights, fused=True, **options)
