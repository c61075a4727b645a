"""How good predictions are: metrics over all examples, never averaged over batches."""

from slipstream.training.metrics.metric import Metric, Mode, Predictions, SumMetric, mean, ratio
from slipstream.training.metrics.metrics import Metrics, Scores
from slipstream.training.metrics.registry import METRICS

__all__ = [
    "METRICS",
    "Metric",
    "Metrics",
    "Mode",
    "Predictions",
    "Scores",
    "SumMetric",
    "mean",
    "ratio",
]
