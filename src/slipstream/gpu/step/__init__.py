"""One training step on a device.

Nothing here needs a GPU: on a CPU the kernels run in Triton's interpreter, as the tests do.
"""
