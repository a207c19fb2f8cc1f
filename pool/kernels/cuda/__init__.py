"""Kernels for CUDA devices: sources, compiled when they are first used, and torch operations that launch them."""
