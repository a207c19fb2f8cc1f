"""The optimizer's part of a bucket's step: from gradients to the next version of the weights (I3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pool.coordinator.update.parameter_part import Piece
from pool.crash_points import crash_point
from pool.kernels.fold import Addend
from pool.optim.buckets import BucketOptimizers

BucketGradients = Sequence[tuple[Piece, Sequence[Addend]]]  # all pieces of a bucket, each with its gradients


class Apply(Protocol):
    def __call__(self, step: int, bucket: BucketGradients, scale: float) -> None:
        """Makes version step + 1 of the bucket with the sums of the gradients, times `scale`."""


class OwnOptimizer:
    """One of `pool.optim`: it reads the gradients and the old version, and writes the new one in the same pass."""

    def __init__(self, bucket: int, optimizers: BucketOptimizers) -> None:
        self._bucket = bucket
        self._optimizers = optimizers

    def __call__(self, step: int, bucket: BucketGradients, scale: float) -> None:
        for piece, gradients in bucket:
            piece.next_version(step, gradients)
        crash_point("coordinator.weights_caught_up")
        steps = [(p.parameter, p.memory.weights(step), gradients) for p, gradients in bucket if gradients]
        self._optimizers.fold_and_step(self._bucket, steps, scale)
        crash_point("coordinator.weights_folded")
        for piece, _ in bucket:
            piece.give_out(step)


class TorchOptimizer:
    """Any other: it takes one whole gradient, and changes the weights in place."""

    def __init__(self, bucket: int, optimizers: BucketOptimizers) -> None:
        self._bucket = bucket
        self._optimizers = optimizers

    def __call__(self, step: int, bucket: BucketGradients, scale: float) -> None:
        assert scale == 1.0, "its gradient is scaled when it is added up"
        for piece, gradients in bucket:
            assert len(gradients) <= 1, "its gradient is added up before"
            piece.next_version(step, gradients)
            piece.parameter.grad = gradients[0].gradient if gradients else None
        crash_point("coordinator.weights_copied")
        self._optimizers.step(self._bucket)
        crash_point("coordinator.weights_stepped")
        for piece, _ in bucket:
            assert piece.parameter.data_ptr() == piece.memory.weights(step + 1).data_ptr(), "I3"
            piece.give_out(step)
