"""Kernels for CUDA devices: their sources, which are compiled at the first use, and functions that launch them."""
