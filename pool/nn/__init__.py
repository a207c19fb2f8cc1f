"""Layers for sparse input, the batch as torch tensors, and the seeding of random generators."""
