"""Which inputs are trained, with what correction."""
