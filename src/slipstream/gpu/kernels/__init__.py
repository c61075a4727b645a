"""Kernels for a GPU, in Triton: the step reads and moves rows of the fast tier with them.

Each is a PyTorch operator that says what it changes. Their sizes are capacities: how much of a
tensor counts is read on the device, so that one recorded step serves every batch.
"""
