"""The metrics: one file for each, and a line here."""

from __future__ import annotations

from slipstream.training.metrics import accuracy, auc, calibration, logloss, normalized_entropy
from slipstream.training.metrics.metric import Metric

METRICS: dict[str, Metric] = {
    "auc": auc.METRIC,
    "logloss": logloss.METRIC,
    "normalized_entropy": normalized_entropy.METRIC,
    "accuracy": accuracy.METRIC,
    "calibration": calibration.METRIC,
}
