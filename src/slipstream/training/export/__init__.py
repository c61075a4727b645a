"""A trained model in files that other programs read: weights, and a program to run."""

from slipstream.training.export.export import export_run

__all__ = ["export_run"]
