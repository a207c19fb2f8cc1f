"""Sum, optimizer and the new version in one pass over memory: for optimizers of `pool.optim`, without clipping."""

from __future__ import annotations

from collections.abc import Sequence

from pool.coordinator.scheduler.actions import Fold, Update
from pool.coordinator.update.applying import Apply
from pool.coordinator.update.parameter_part import Piece
from pool.coordinator.update.stepping import Scale
from pool.coordinator.update.timing import Timing
from pool.crash_points import crash_point


class OnePass:
    """A Stepping. The sum is written nowhere, but for what has to be folded before the rest is there."""

    def __init__(self, pieces: Sequence[Piece], apply: Apply, scale: Scale, timing: Timing) -> None:
        self._pieces = pieces
        self._apply = apply
        self._scale = scale
        self._timing = timing

    def fold(self, action: Fold) -> None:
        with self._timing.reducing(action.step, action.bucket):
            crash_point("coordinator.before_fold")
            for piece in self._pieces:
                if action.first:
                    piece.begin()
                piece.fold(action.contributions)

    def update(self, action: Update) -> None:
        with self._timing.optimizing(action.step, action.bucket):
            crash_point("coordinator.before_fold")
            rest = () if action.fold is None else action.fold.contributions
            for piece in self._pieces:
                if action.begins:
                    piece.begin()
            work = [(piece, piece.gradients(rest)) for piece in self._pieces]
            self._apply(action.step, work, self._scale(action.batches))
