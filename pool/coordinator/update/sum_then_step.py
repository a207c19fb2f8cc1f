"""First the sum, then the optimizer: for optimizers that take one gradient, and for clipping."""

from __future__ import annotations

from collections.abc import Sequence

from pool.coordinator.scheduler.actions import Fold, Update
from pool.coordinator.update.applying import Apply
from pool.coordinator.update.parameter_part import Piece
from pool.coordinator.update.stepping import Scale
from pool.coordinator.update.timing import Timing
from pool.crash_points import crash_point


class SumThenStep:
    """A Stepping; `clip_value`: the sum is clamped to -clip_value .. clip_value."""

    def __init__(
        self,
        bucket: int,
        pieces: Sequence[Piece],
        apply: Apply,
        scale: Scale,
        timing: Timing,
        *,
        clip_value: float | None = None,
    ) -> None:
        self._bucket = bucket
        self._pieces = pieces
        self._apply = apply
        self._scale = scale
        self._timing = timing
        self._clip_value = clip_value

    def fold(self, action: Fold) -> None:
        with self._timing.reducing(action.step, self._bucket):
            crash_point("coordinator.before_fold")
            for piece in self._pieces:
                if action.first:
                    piece.begin()
                if action.last:
                    piece.fold_all(action.contributions, self._scale(action.batches))
                else:
                    piece.fold(action.contributions)

    def update(self, action: Update) -> None:
        self.add_up(action)
        with self._timing.optimizing(action.step, self._bucket):
            self.step(action.step)

    def add_up(self, action: Update) -> None:
        """The rest of the sum."""
        if action.fold is not None:
            self.fold(action.fold)
        elif action.begins:
            for piece in self._pieces:
                piece.begin()

    def step(self, step: int) -> None:
        """With the sum as it is."""
        if self._clip_value is not None:
            for total in (addend.gradient for piece in self._pieces for addend in piece.sum):
                total.clamp_(-self._clip_value, self._clip_value)
        self._apply(step, [(piece, piece.sum) for piece in self._pieces], 1.0)

    @property
    def summed(self) -> set[int]:
        """The parameters that have a gradient, by index."""
        return {piece.index for piece in self._pieces if piece.sum}
