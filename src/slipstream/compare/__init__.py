"""Trains several strategies on the same data, fairly, and says what came out."""
