"""Kernels for NVIDIA's GPUs: their sources, compiled when they are first used, and torch operations that launch them."""
