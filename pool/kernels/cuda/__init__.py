"""Kernels for CUDA devices: sources, compiled when they are first used, and functions that launch them."""
