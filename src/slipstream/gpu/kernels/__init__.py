"""Kernels for a GPU, in Triton, which look up and update rows of the fast tier.

Each is a PyTorch operator that declares what it changes. Their sizes are capacities: how much of a
tensor counts is read on the device, so that one recorded step serves every batch.
"""
