"""Layers for sparse input, and the batch as torch sees it."""
