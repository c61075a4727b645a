"""The metrics of the last inputs of a training, for its progress line."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from slipstream.arrays import Array
from slipstream.errors import ConfigError
from slipstream.training.metrics import Metrics, Scores


class Recent:
    """Keeps the scores of the last inputs, 12 bytes each: only `result` computes.

    Nothing waits for the device in `add`, and nothing depends on the clock: a resumed training
    that loads the state prints the same figures.

    Example:
        >>> recent = Recent(2)
        >>> recent.add(torch.tensor([9.0, -1.0, 1.0]), torch.tensor([0.0, 0.0, 1.0]))
        >>> recent.result()["inputs"], recent.result()["auc"]
        (2, 1.0)
    """

    def __init__(self, window_inputs: int, device: str | torch.device = "cpu") -> None:
        if window_inputs < 1:
            raise ConfigError(f"window_inputs is {window_inputs}; it must be at least 1.")
        self.window_inputs = window_inputs
        self._ring = torch.zeros((3, window_inputs), device=device)  # logits, labels, weights
        self._added = 0
        self._waiting: deque[tuple[Tensor, Tensor, Tensor, int]] = deque()
        self._waiting_inputs = 0

    def add(self, logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> None:
        """Add the predictions of a batch, made before its update."""
        count = logits.numel()
        first = max(count - self.window_inputs, 0)
        while first < count:
            at = (self._added + first) % self.window_inputs
            last = min(first + self.window_inputs - at, count)
            for row, values in zip(self._ring, (logits, labels, weights), strict=True):
                place = row[at : at + last - first]
                if values is None:
                    place.fill_(1)
                else:
                    place.copy_(values.detach().reshape(-1)[first:last])
            first = last
        self._added += count

    def add_later(self, logits: Tensor, labels: Tensor, weights: Tensor, count: int) -> None:
        """As `add` with the first `count`, but copied only when needed: they must not change.

        Most batches are never copied, because later ones replace them first.
        """
        self._waiting.append((logits, labels, weights, count))
        self._waiting_inputs += count
        while self._waiting_inputs - self._waiting[0][3] >= self.window_inputs:
            dropped = self._waiting.popleft()[3]
            self._waiting_inputs -= dropped
            self._added += dropped

    def _copy(self) -> None:
        waiting, self._waiting, self._waiting_inputs = self._waiting, deque(), 0
        if waiting:
            # At once: between two operations of torch another thread may go first.
            whole = (
                [values if len(values) == count else values[:count] for values in columns]
                for *columns, count in waiting
            )
            self.add(*map(torch.cat, zip(*whole, strict=True)))

    def copy(self) -> Recent:
        """The same window, which no longer changes; it shares the batches of `add_later`."""
        other = Recent.__new__(Recent)
        other.window_inputs, other._added = self.window_inputs, self._added
        covered = self._waiting_inputs >= self.window_inputs  # the ring is not used then
        other._ring = torch.empty_like(self._ring) if covered else self._ring.clone()
        other._waiting, other._waiting_inputs = deque(self._waiting), self._waiting_inputs
        return other

    def result(self) -> Scores:
        """The figures of the inputs in the window; all None while a logit is not finite."""
        logits, labels, weights = self._window()
        metrics = Metrics()
        if not np.isfinite(logits).all():
            return dict.fromkeys(metrics.result()) | {"inputs": len(logits)}
        metrics.add(logits, labels, weights)
        return metrics.result()

    def _window(self) -> tuple[Array, Array, Array]:
        # The oldest first: so the sums, too, are the same wherever the ring begins. Few operations
        # copy them: between two of them another thread may go first.
        if self._waiting_inputs >= self.window_inputs:  # the ring is not used
            parts: list[tuple[Array, ...]] = []
        else:
            stop = min(self._added, self.window_inputs)
            start = self._added % self.window_inputs if stop == self.window_inputs else 0
            ring = self._ring.cpu().numpy()
            parts = [tuple(ring[:, start:stop]), tuple(ring[:, :start])]
        for *tensors, count in self._waiting:
            parts.append(tuple(tensor.detach().cpu().numpy()[:count] for tensor in tensors))
        columns = zip(*parts, strict=True)
        joined = (np.concatenate(column)[-self.window_inputs :] for column in columns)
        logits, labels, weights = (column.astype(np.float32, copy=False) for column in joined)
        return logits, labels, weights

    def state_dict(self) -> dict[str, Tensor]:
        """The window, to continue in this or another process."""
        self._copy()
        return {"ring": self._ring.cpu().clone(), "added": torch.tensor(self._added)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue with the state of a window of the same size."""
        if state["ring"].shape != self._ring.shape:
            raise ConfigError(
                f"This state is one of a window of {state['ring'].shape[1]} examples, not "
                f"{self.window_inputs}."
            )
        self._ring.copy_(state["ring"])
        self._added = int(state["added"])
