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

    def after(self, known: Plateau, validation: Validation, *, diverged: bool = False) -> tuple[Plateau, bool]:
        """Returns the state after one more validation, and whether the learning rate is to be reduced now.

        `known`: the state before it. If that is about another metric than the goal's, it is reset first. A
        validation of a training that has diverged counts as no improvement.
        """
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
        """Returns a learning rate multiplied by `factor`, but at least `min_lr`.

        A rate at or below `min_lr`, such as one of a warmup, is returned unchanged.
        """
        return min(rate, max(rate * self.factor, self.min_lr))

    def _better(self, value: float, best: float | None) -> bool:
        """Returns whether `value` improves on `best` by more than the threshold."""
        if not math.isfinite(value) or best is None:
            return math.isfinite(value)
        margin = abs(best) * self.threshold
        return value < best - margin if self.goal.best == "min" else value > best + margin
