"""Runs the optimizer of each bucket (parameters that are stepped together), and has optimizers of its own.

The classes below are chosen by dotted name, e.g. `optimizer.name = "pool.optim.Adam"`.
"""

from pool.optim.adagrad import RowwiseAdagrad
from pool.optim.adam import Adam, AdamW, SparseAdam
from pool.optim.clipped_adamw import ClippedAdamW
from pool.optim.ftrl import FTRL
from pool.optim.ranger_lite import RangerLite

__all__ = ["FTRL", "Adam", "AdamW", "ClippedAdamW", "RangerLite", "RowwiseAdagrad", "SparseAdam"]
