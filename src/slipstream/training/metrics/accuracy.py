"""The share of examples predicted right; a probability above 0.5 predicts a click."""

from slipstream.training.metrics.metric import mean

METRIC = mean("accuracy", lambda predictions: (predictions.logits > 0) == predictions.positive)
