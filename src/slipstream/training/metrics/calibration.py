"""The mean prediction over the share of clicks."""

from slipstream.training.metrics.metric import SumMetric, ratio

METRIC = SumMetric(
    "calibration",
    lambda predictions: (
        predictions.sum(predictions.probabilities),
        predictions.class_weights[1],
    ),
    ratio,
)
