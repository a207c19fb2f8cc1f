"""What a batch holds, for comparisons: bytes of a slot behind the end of an array mean nothing."""

from __future__ import annotations

import hashlib

import numpy as np

from loader.stream.schema import SparseBatch


def digest(batch: SparseBatch) -> str:
    """A hash of everything a batch holds."""
    sparse = [view for field in batch.sparse.values() for view in field.arrays().values()]
    arrays = [*sparse, *batch.dense.values(), batch.bucket_offsets, np.array([batch.number])]
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()
