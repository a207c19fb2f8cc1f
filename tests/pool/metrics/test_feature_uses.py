"""Uses of features are counted over all batches, however many there are."""

from __future__ import annotations

import numpy as np

from loader.stream.schema import SparseBatch, SparseView
from pool.metrics.feature_uses import FeatureUses, UntrainedShare

MANY = (1 << 32) - 1


def batch_using(feature: int, times: int) -> SparseBatch:
    """A batch that uses a feature so often, in one bag each; without memory for that."""
    view = SparseView(
        offsets=np.zeros(1, np.uint32),
        features=np.broadcast_to(np.uint16(feature), times),
        touched=np.array([feature], np.uint16),
        touched_offsets=np.array([0, times], np.uint32),
        bags=np.zeros(1, np.uint16),
    )
    return SparseBatch(0, {"user": view}, {}, np.zeros(1, np.uint32), np.zeros(0, np.uint8))


def test_more_uses_than_32_bits_hold_are_counted() -> None:
    uses = FeatureUses()
    for feature, times in ((7, MANY), (7, MANY), (900, 1), (2, 3)):
        uses.add(batch_using(feature, times))
    used = uses.of_fields()["user"]
    assert used.features.tolist() == [2, 7, 900]
    assert used.uses.tolist() == [3, 2 * MANY, 1]
    share = used.share(np.array([True, False, True]))
    assert share == UntrainedShare("user", 3, 2, 2 * MANY + 4, 4)
    assert share.is_small
