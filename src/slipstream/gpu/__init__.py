"""All that needs a CUDA device: Triton kernels, streams, and the planning that feeds them."""
