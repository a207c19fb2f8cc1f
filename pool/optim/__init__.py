"""Optimizers, bucket by bucket; and our own, to be chosen by dotted name (`optimizer.name = "pool.optim.Adam"`)."""

from pool.optim.adam import Adam, SparseAdam

__all__ = ["Adam", "SparseAdam"]
