"""A fast tier in the memory of a device: plans are packed, sent ahead, and stepped through there.

Nothing here asks for a GPU: on the CPU the kernels run in Triton's interpreter, as the tests do.
"""
