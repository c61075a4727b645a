"""Copies plans and rows to a device and rows back from it, beside its computation."""
