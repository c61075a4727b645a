"""A row optimizer with two states, as a user would add it: in one file, without a kernel."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from slipstream.tables.optimizers import RowOptimizer


@dataclass(frozen=True)
class Ftrl(RowOptimizer):
    """FTRL-Proximal (McMahan et al., 2013); row-wise in `n` to have a state of each size."""

    lr: float = 0.1
    beta: float = 1.0
    l1: float = 0.01
    l2: float = 0.1
    name = "ftrl"
    slots: ClassVar = {"z": "element", "n": "row"}

    def update(self, rows, state, gradient, lr, step):
        z, n = state["z"], state["n"]
        more = n + (gradient * gradient).mean(dim=1, keepdim=True)
        z += gradient - (more.sqrt() - n.sqrt()) / lr * rows
        n.copy_(more)
        rate = (self.beta + n.sqrt()) / lr + self.l2
        return torch.where(z.abs() > self.l1, (z.sign() * self.l1 - z) / rate, 0)
