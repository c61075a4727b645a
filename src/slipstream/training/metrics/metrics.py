"""How good predictions are: over every input of an evaluation, never averaged over batches."""

from __future__ import annotations

from typing import get_args

import numpy as np
import torch
from torch import Tensor

from slipstream.arrays import Array
from slipstream.errors import ConfigError, DataError, did_you_mean
from slipstream.training.metrics.metric import Metric, Mode, Predictions
from slipstream.training.metrics.registry import METRICS

_BLOCK = 1 << 16  # inputs are summed in blocks of this size, wherever their batches were cut

Scores = dict[str, float | None]
"""The figures of all metrics by name, and how many `inputs` and `positives` they are of."""


class Metrics:
    """Collects predictions batch by batch and computes every metric of all of them together.

    The result does not depend on where batches were cut, to the last bit. Sums are of float64.

    Args:
        mode: `exact` keeps every score: 4 bytes an input and as many more for a moment in
            `result`; with weights 8, and up to 36 more. `bounded` keeps 4 MiB whatever comes (two
            histograms of 2^18 bins) and reports by how much its AUC can be wrong; all else is exact
            in both.

    Example:
        >>> metrics = Metrics()
        >>> metrics.add(torch.tensor([2.0, -1.0]), torch.tensor([1, 0]))
        >>> metrics.add(torch.tensor([0.0]), torch.tensor([1]))
        >>> scores = metrics.result()
        >>> scores["auc"], scores["inputs"], scores["positives"], round(scores["logloss"], 4)
        (1.0, 3, 2, 0.3778)
    """

    def __init__(self, mode: Mode = "exact") -> None:
        if mode not in get_args(Mode):
            raise ConfigError(f"There is no AUC {mode!r}.{did_you_mean(mode, get_args(Mode))}")
        self._metrics = [metric.in_mode(mode) for metric in METRICS.values()]
        self._inputs = self._positives = 0
        self._block = np.zeros((3, _BLOCK), dtype=np.float32)  # logits, labels, weights
        self._filled = 0

    def add(
        self, logits: Tensor | Array, labels: Tensor | Array, weights: Tensor | Array | None = None
    ) -> None:
        """Add the predictions of a batch: scores before the sigmoid, and labels of 0 or 1.

        Weights are at least 0; None counts each example once. All is computed from float32.
        """
        scores = _flat(logits)
        weigh = np.ones_like(scores) if weights is None else _flat(weights)
        rows = (scores, _flat(labels), weigh)
        _check(*rows, self._inputs)
        self._inputs += len(scores)
        self._positives += int(np.count_nonzero(rows[1] > 0))
        start = 0
        while start < len(scores):
            count = min(_BLOCK - self._filled, len(scores) - start)
            for row, values in zip(self._block, rows, strict=True):
                row[self._filled : self._filled + count] = values[start : start + count]
            self._filled += count
            start += count
            if self._filled == _BLOCK:
                self._metrics = self._with_block()
                self._filled = 0

    def result(self) -> Scores:
        """The figures of all predictions so far; more can be added afterwards."""
        figures: Scores = {}
        for metric in self._with_block():
            figures |= metric.figures()
        return figures | {"inputs": self._inputs, "positives": self._positives}

    def _with_block(self) -> list[Metric]:
        logits, labels, weights = self._block[:, : self._filled]
        more = Predictions(logits, labels > 0, weights)
        return [metric.plus(more) for metric in self._metrics]


def _flat(values: Tensor | Array) -> Array:
    if isinstance(values, Tensor):
        values = values.detach().to("cpu", torch.float32).numpy()
    return np.asarray(values, dtype=np.float32).reshape(-1)


def _check(logits: Array, labels: Array, weights: Array, begins: int) -> None:
    if not len(logits) == len(labels) == len(weights):
        raise DataError(
            f"Metrics were given {len(logits)} scores, {len(labels)} labels and {len(weights)} "
            "weights; each example needs one of each."
        )
    for kind, values, good, rule in (
        ("score", logits, np.isfinite(logits), "finite"),
        ("label", labels, (labels == 0) | (labels == 1), "0 or 1"),
        ("weight", weights, np.isfinite(weights) & (weights >= 0), "finite and at least 0"),
    ):
        if not good.all():
            at = int(np.argmin(good))
            raise DataError(f"The {kind} of example {begins + at} is {values[at]}, not {rule}.")
