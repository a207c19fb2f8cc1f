"""Optimizers, bucket by bucket; and our own, to be chosen by dotted name (`optimizer.name = "pool.optim.Adam"`)."""

from pool.optim.adagrad import RowwiseAdagrad
from pool.optim.adam import Adam, AdamW, SparseAdam
from pool.optim.clipped_adamw import ClippedAdamW
from pool.optim.ftrl import FTRL
from pool.optim.ranger_lite import RangerLite

__all__ = ["FTRL", "Adam", "AdamW", "ClippedAdamW", "RangerLite", "RowwiseAdagrad", "SparseAdam"]
