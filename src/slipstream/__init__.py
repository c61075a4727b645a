"""Trains click-prediction models whose embedding tables are larger than fast memory."""
