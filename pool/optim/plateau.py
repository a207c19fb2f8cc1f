"""Makes the rule of `[schedule.plateau]`, which reduces the learning rate when validations stop improving."""

from __future__ import annotations

from pool.checkpoint.plateau import ReduceOnPlateau
from pool.checkpoint.validations import Goal
from pool.config.tree import Config
from pool.errors import ConfigError
from pool.metrics.layout import Measured


def plateau_rule(config: Config, measured: Measured) -> ReduceOnPlateau | None:
    """Returns the rule that a config sets; None if validations do not change the learning rate.

    Raises ConfigError if the metric is not measured in this run.
    """
    plateau = config.schedule.plateau
    if plateau.patience is None:
        return None
    metric = plateau.metric or config.train.best_metric
    try:
        goal = Goal(metric, measured.best(metric))
    except ValueError as error:
        raise ConfigError(f"schedule.plateau.metric: {error}") from None
    return ReduceOnPlateau(goal, plateau.patience, plateau.factor, plateau.min_lr, plateau.threshold, plateau.cooldown)
