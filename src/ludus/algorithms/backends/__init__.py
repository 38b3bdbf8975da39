"""Ways to execute an update: numba kernels and CUDA graphs."""
