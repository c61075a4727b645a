"""Exports a trained model: weights, and a program that other software can run."""

from slipstream.training.export.export import export_run

__all__ = ["export_run"]
