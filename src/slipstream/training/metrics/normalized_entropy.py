"""The logloss over that of always predicting the share of clicks."""

import math

from slipstream.training.metrics.metric import SumMetric


def _result(loss: float, negative: float, positive: float) -> float | None:
    if not negative or not positive:
        return None
    weight = negative + positive
    entropy = -sum(share * math.log(share) for share in (negative / weight, positive / weight))
    return loss / weight / entropy


METRIC = SumMetric(
    "normalized_entropy",
    lambda predictions: (predictions.sum(predictions.losses), *predictions.class_weights),
    _result,
)
