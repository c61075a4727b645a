"""Packed data sets: what they hold, how they are made, and how examples become batches."""
