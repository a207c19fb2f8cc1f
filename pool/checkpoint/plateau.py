"""When validations that get no better reduce the learning rate (`[schedule.plateau]`), as
torch.optim.lr_scheduler.ReduceLROnPlateau does. Pure.

Decided when a version is validated and no step with it has begun, from what checkpoints and snapshots hold (I9): the
learning rate of a step is a function of the run's state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pool.checkpoint.validations import Count, Goal, Validation


@dataclass(frozen=True)
class Plateau:
    """The numbers that a schedule keeps of the validations so far."""

    metric: str = ""  # that `best` is a value of; empty before the first validation
    best: float | None = None  # None: none was finite
    since: Count = 0  # validations that were no better, after that one and after the last reduction
    cooldown: Count = 0  # validations to come that do not count


@dataclass(frozen=True)
class ReduceOnPlateau:
    goal: Goal
    patience: int  # validations that may be no better; the next one of them reduces the rate
    factor: float
    min_lr: float
    threshold: float  # of the best value: an improvement is more than that
    cooldown: int  # validations after a reduction that do not count

    def after(self, known: Plateau, validation: Validation, *, diverged: bool = False) -> tuple[Plateau, bool]:
        """With one more validation, and whether it reduces the rate. Values of another metric are forgotten; one of a
        training that has diverged is no better."""
        if known.metric != self.goal.metric:
            known = Plateau(self.goal.metric)
        value = validation.value(self.goal.metric)
        if not diverged and self._better(value, known.best):
            known = replace(known, best=value, since=0)
        else:
            known = replace(known, since=known.since + 1)
        if known.cooldown:
            known = replace(known, cooldown=known.cooldown - 1, since=0)
        if known.since <= self.patience:
            return known, False
        return replace(known, cooldown=self.cooldown, since=0), True

    def reduced(self, rate: float) -> float:
        """A rate at or below `min_lr`, such as one of a warmup, stays as it is."""
        return min(rate, max(rate * self.factor, self.min_lr))

    def _better(self, value: float, best: float | None) -> bool:
        if not math.isfinite(value) or best is None:
            return math.isfinite(value)
        margin = abs(best) * self.threshold
        return value < best - margin if self.goal.best == "min" else value > best + margin
