"""The mean of the negative logarithm of the probability given to what happened."""

from slipstream.training.metrics.metric import mean

METRIC = mean("logloss", lambda predictions: predictions.losses)
