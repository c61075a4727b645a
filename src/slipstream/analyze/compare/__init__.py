"""Trains several strategies on the same data under the same conditions and reports the results."""
