"""Kernels for the dense part of models, in Triton."""
