"""How good predictions are: over every input of an evaluation, never averaged over batches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from slipstream.data.inputs import Array
from slipstream.errors import ConfigError, DataError, did_you_mean
from slipstream.training.auc import Histograms, KeptScores

Mode = Literal["exact", "bounded"]
_BLOCK = 1 << 16  # inputs are summed in blocks of this size, wherever their batches were cut


@dataclass(frozen=True)
class Scores:
    """How good predictions are. What cannot be said, such as an AUC of one class, is None.

    Args:
        auc: Share of pairs of a positive and a negative input in the right order; ties count half.
        auc_error: How far at most the exact AUC is from it: 0 where it is exact.
        logloss: Mean of the negative logarithm of the probability given to what happened.
        normalized_entropy: The logloss over that of always predicting the share of positives.
        accuracy: Share of inputs predicted right; a probability above 0.5 predicts a positive.
        calibration: Mean prediction over the share of positives.
        inputs: Inputs seen.
        positives: Positive inputs seen.
    """

    auc: float | None
    auc_error: float | None
    logloss: float | None
    normalized_entropy: float | None
    accuracy: float | None
    calibration: float | None
    inputs: int
    positives: int

    def to_json(self) -> dict[str, float | int | None]:
        """The values by name, as JSON has them."""
        return asdict(self)


class Metrics:
    """Takes predictions batch by batch and says how good all of them together are.

    The result does not depend on where batches were cut, to the last bit. Sums are of float64.

    Args:
        mode: `exact` keeps every score: 4 bytes an input and as many more for a moment in
            `result`; with weights 8, and up to 36 more. `bounded` keeps 4 MiB whatever comes (two
            histograms of 2^18 bins) and states by how much its AUC can be wrong; all else is exact
            in both.

    Example:
        >>> metrics = Metrics()
        >>> metrics.add(torch.tensor([2.0, -1.0]), torch.tensor([1, 0]))
        >>> metrics.add(torch.tensor([0.0]), torch.tensor([1]))
        >>> scores = metrics.result()
        >>> scores.auc, scores.inputs, scores.positives, round(scores.logloss, 4)
        (1.0, 3, 2, 0.3778)
    """

    def __init__(self, mode: Mode = "exact") -> None:
        if mode not in get_args(Mode):
            raise ConfigError(f"There is no AUC {mode!r}.{did_you_mean(mode, get_args(Mode))}")
        self.mode = mode
        self._pairs: KeptScores | Histograms = KeptScores() if mode == "exact" else Histograms()
        self._sums = np.zeros(5)
        self._counts = np.zeros(2, dtype=np.int64)
        self._block = np.zeros((3, _BLOCK), dtype=np.float32)  # logits, labels, weights
        self._filled = 0

    def add(
        self, logits: Tensor | Array, labels: Tensor | Array, weights: Tensor | Array | None = None
    ) -> None:
        """Take the predictions of a batch.

        Args:
            logits: The scores, before the sigmoid; taken as float32.
            labels: 0 or 1 for each.
            weights: How much each counts, at least 0, taken as float32; None counts each once.
        """
        scores = _flat(logits)
        weigh = np.ones_like(scores) if weights is None else _flat(weights)
        rows = (scores, _flat(labels), weigh)
        _check(*rows, int(self._counts[0]) + self._filled)
        start = 0
        while start < len(scores):
            taken = min(_BLOCK - self._filled, len(scores) - start)
            for row, values in zip(self._block, rows, strict=True):
                row[self._filled : self._filled + taken] = values[start : start + taken]
            self._filled += taken
            start += taken
            if self._filled == _BLOCK:
                self._sums, self._counts, self._pairs = self._with_block()
                self._filled = 0

    def result(self) -> Scores:
        """How good all predictions so far are; more can be added afterwards."""
        sums, counts, pairs = self._with_block()
        auc, error = pairs.auc()
        negative, positive, loss, prediction, right = map(float, sums)
        weight = negative + positive
        entropy = _entropy(negative, positive)
        return Scores(
            auc=auc,
            auc_error=error,
            logloss=loss / weight if weight else None,
            normalized_entropy=loss / weight / entropy if entropy else None,
            accuracy=right / weight if weight else None,
            calibration=prediction / positive if positive else None,
            inputs=int(counts[0]),
            positives=int(counts[1]),
        )

    def state_dict(self) -> dict[str, Tensor]:
        """All there is to go on from here, in this or another process."""
        state: dict[str, Array] = {
            "sums": self._sums,
            "counts": self._counts,
            "block": self._block[:, : self._filled],
            **self._pairs.state(),
        }
        return {name: torch.from_numpy(value.copy()) for name, value in state.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state of the same mode."""
        arrays = {name: value.numpy().copy() for name, value in state.items()}
        if arrays.keys() != self.state_dict().keys():
            raise ConfigError(f"This state is not one of {self.mode} metrics.")
        self._pairs = type(self._pairs).of_state(arrays)
        self._sums, self._counts = arrays["sums"], arrays["counts"]
        self._filled = arrays["block"].shape[1]
        self._block[:, : self._filled] = arrays["block"]

    def _with_block(self) -> tuple[Array, Array, KeptScores | Histograms]:
        """Sums, counts and pairs with the inputs of the unfinished block."""
        logits, labels, weights = self._block[:, : self._filled]
        positive = labels > 0
        return (
            self._sums + sums_of(logits, positive, weights),
            self._counts + np.array([len(logits), np.count_nonzero(positive)]),
            self._pairs.plus(logits, positive, weights),
        )


def sums_of(logits: Array, positive: Array, weights: Array) -> Array:
    """Weight of the negative and of the positive inputs, loss, predictions, and predicted right."""
    x, weight = logits.astype(np.float64), weights.astype(np.float64)
    small = np.exp(-np.abs(x))  # never overflows
    loss = np.maximum(np.where(positive, -x, x), 0) + np.log1p(small)
    prediction = np.where(x < 0, small, 1.0) / (1 + small)
    right = (x > 0) == positive
    return np.array(
        [
            weight[~positive].sum(),
            weight[positive].sum(),
            (weight * loss).sum(),
            (weight * prediction).sum(),
            weight[right].sum(),
        ]
    )


def _entropy(negative: float, positive: float) -> float:
    """The logloss of always predicting the share of positives."""
    if not negative or not positive:
        return 0.0
    shares = (negative / (negative + positive), positive / (negative + positive))
    return -sum(share * math.log(share) for share in shares)


def _flat(values: Tensor | Array) -> Array:
    if isinstance(values, Tensor):
        values = values.detach().to("cpu", torch.float32).numpy()
    return np.asarray(values, dtype=np.float32).reshape(-1)


def _check(logits: Array, labels: Array, weights: Array, begins: int) -> None:
    if not len(logits) == len(labels) == len(weights):
        raise DataError(
            f"Metrics were given {len(logits)} scores, {len(labels)} labels and {len(weights)} "
            "weights; each input needs one of each."
        )
    for what, values, good, rule in (
        ("score", logits, np.isfinite(logits), "finite"),
        ("label", labels, (labels == 0) | (labels == 1), "0 or 1"),
        ("weight", weights, np.isfinite(weights) & (weights >= 0), "finite and at least 0"),
    ):
        if not good.all():
            at = int(np.argmin(good))
            raise DataError(f"The {what} of input {begins + at} is {values[at]}, not {rule}.")
