"""Reading and moving rows: the plain reference, and fast kernels that are tested against it."""
