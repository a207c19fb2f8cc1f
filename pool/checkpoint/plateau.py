"""Reduces the learning rate when validations stop improving (`[schedule.plateau]`), as
torch.optim.lr_scheduler.ReduceLROnPlateau does. Pure.

The decision is made when a version of the weights has been validated and before the next step begins. It uses only
what checkpoints and snapshots contain (invariant I9), so that the learning rate of a step is a function of the run's
state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pool.checkpoint.validations import Count, Goal, Validation


@dataclass(frozen=True)
class Plateau:
    """The state of reducing the learning rate on a plateau, kept between validations."""

    metric: str = ""  # name of the metric of `best`; empty before the first validation
    best: float | None = None  # best value so far; None: no value was finite
    since: Count = 0  # validations without improvement since the best one or the last reduction
    cooldown: Count = 0  # number of coming validations that are not counted in `since`


@dataclass(frozen=True)
class ReduceOnPlateau:
    """The settings of `[schedule.plateau]`, and the decision that they make at each validation."""

    goal: Goal
    patience: int  # validations without improvement that are tolerated; one more reduces the rate
    factor: float
    min_lr: float
    threshold: float  # smallest improvement that counts, as a fraction of the best value
    cooldown: int  # validations after a reduction that do not count

    def update(self, state: Plateau, validation: Validation, *, diverged: bool = False) -> tuple[Plateau, bool]:
        """Returns the state after one more validation, and whether the learning rate is to be reduced now.

        `state`: the state before the validation. A state of another metric than the goal's is reset first. A
        validation of a training that has diverged counts as no improvement.
        """
        if state.metric != self.goal.metric:
            state = Plateau(self.goal.metric)
        value = validation.value(self.goal.metric)
        if not diverged and self._is_improvement(value, state.best):
            state = replace(state, best=value, since=0)
        else:
            state = replace(state, since=state.since + 1)
        if state.cooldown:
            state = replace(state, cooldown=state.cooldown - 1, since=0)
        if state.since <= self.patience:
            return state, False
        return replace(state, cooldown=self.cooldown, since=0), True

    def reduce(self, rate: float) -> float:
        """Returns a learning rate multiplied by `factor`, but at least `min_lr`.

        A rate at or below `min_lr`, such as one of a warmup, is returned unchanged.
        """
        return min(rate, max(rate * self.factor, self.min_lr))

    def _is_improvement(self, value: float, best: float | None) -> bool:
        """Returns whether `value` improves on `best` by more than the threshold."""
        if not math.isfinite(value):
            return False
        if best is None:
            return True
        margin = abs(best) * self.threshold
        return value < best - margin if self.goal.best == "min" else value > best + margin
