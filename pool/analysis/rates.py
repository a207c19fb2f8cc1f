"""The learning-rate range test: a short run whose rate rises exponentially, and what its losses say.

After L. N. Smith, Cyclical Learning Rates for Training Neural Networks (2017, arXiv:1506.01186), section 3.3. The rate
that is suggested is a tenth of the one at which the smoothed loss was lowest, the usual rule for a constant or falling
rate; the losses are smoothed by an exponential mean without bias.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pool.config.changes import Change
from pool.errors import ConfigError

SMOOTHING = 0.9
DIVERGED = 4.0  # times the first smoothed loss, or the lowest: nothing behind it counts
LEAST = 10  # steps without which nothing can be said


@dataclass(frozen=True)
class RangeTest:
    rates: tuple[float, ...]  # of each step
    losses: tuple[float, ...]
    smoothed: tuple[float, ...]
    lowest: float  # the rate with the lowest smoothed loss
    suggested: float


def changes_for(steps: int, low: float, high: float, run_dir: str) -> list[Change]:
    """What turns a config into that of the short run. Raises ConfigError."""
    if not 0 < low < high or not math.isfinite(high):
        raise ConfigError(f"find-lr: rates from {low:g} to {high:g}: --from must be above 0 and below --to")
    values = {
        "run.dir": run_dir,
        "run.sinks": [],
        "run.trace": "",
        "optimizer.args.lr": low,
        "schedule": {
            "name": "torch.optim.lr_scheduler.ExponentialLR",
            "args": {"gamma": (high / low) ** (1 / max(1, steps - 1))},
        },
        "data.validation": [],
        "train.steps": steps,
        "train.validate_every": 0,
        "train.best_metric": "loss",
        "train.early_stopping": None,
        "train.checkpoint_every": 0,
        "train.checkpoint_minutes": 0,
        "train.on_end": [],
        "train.on_bad_batch": "stop",
    }
    return [Change(key, value, is_toml=True) for key, value in values.items()]


def judge(rates: Sequence[float], losses: Sequence[float]) -> RangeTest:
    """`losses` of steps that were done with `rates`. Raises ConfigError if they are too few."""
    if len(rates) < LEAST:
        raise ConfigError(f"find-lr: {len(rates)} steps are too few to say anything; {LEAST} are needed")
    smoothed = _smoothed(losses)
    kept = next((index for index in range(1, len(losses)) if _has_diverged(smoothed[: index + 1])), len(losses))
    best = min(range(kept), key=lambda index: smoothed[index])
    return RangeTest(tuple(rates), tuple(losses), tuple(smoothed), rates[best], rates[best] / 10)


def _has_diverged(losses: Sequence[float]) -> bool:
    """The newest is far above the lowest, in units of what losses here are like."""
    unit = max(abs(losses[0]), abs(min(losses)))
    return not losses[-1] <= min(losses) + (DIVERGED - 1) * unit


def _smoothed(losses: Sequence[float]) -> list[float]:
    mean, found = 0.0, []
    for count, loss in enumerate(losses, 1):
        mean = SMOOTHING * mean + (1 - SMOOTHING) * loss
        found.append(mean / (1 - SMOOTHING**count))
    return found
