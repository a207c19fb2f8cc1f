"""The learning-rate range test: a short run whose learning rate rises exponentially, the rate that its losses suggest,
and a chart of them in characters.

After L. N. Smith, Cyclical Learning Rates for Training Neural Networks (2017, arXiv:1506.01186), section 3.3. The
suggested rate is a tenth of the one at which the smoothed loss was lowest, the usual rule for a constant or falling
rate. The losses are smoothed by an exponential mean with bias correction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pool.analysis.short_run import short_run
from pool.checkpoint.validations import DIVERGED
from pool.config.changes import Change
from pool.errors import ConfigError

SMOOTHING = 0.9
MIN_STEPS = 10  # steps that a test needs for a result
WIDTH, HEIGHT = 64, 14  # of the chart, in characters


@dataclass(frozen=True)
class RangeTest:
    """Holds the losses of a range test by learning rate, and the rate that they suggest."""

    rates: tuple[float, ...]  # learning rate of each step
    losses: tuple[float, ...]
    smoothed: tuple[float, ...]
    lowest: float  # learning rate with the lowest smoothed loss
    suggested: float


def range_test_changes(steps: int, low: float, high: float, run_dir: str) -> list[Change]:
    """Returns the changes that turn a config into that of the test's short run. Raises ConfigError for rates that do
    not rise."""
    if not 0 < low < high or not math.isfinite(high):
        raise ConfigError(f"find-lr: rates from {low:g} to {high:g}: --from must be above 0 and below --to")
    schedule = {
        "name": "torch.optim.lr_scheduler.ExponentialLR",
        "args": {"gamma": (high / low) ** (1 / max(1, steps - 1))},
    }
    settings = {"optimizer.args.lr": low, "schedule": schedule, "train.on_bad_batch": "stop"}
    return short_run(run_dir, steps, settings)


def evaluate_rates(rates: Sequence[float], losses: Sequence[float]) -> RangeTest:
    """Finds the learning rate with the lowest smoothed loss before the run diverged, and returns the result of the
    test. `losses` are those of the steps done with `rates`. Raises ConfigError if they are too few."""
    if len(rates) < MIN_STEPS:
        raise ConfigError(f"find-lr: {len(rates)} steps are too few to say anything; {MIN_STEPS} are needed")
    smoothed = _smooth(losses)
    num_sound = next((index for index in range(1, len(losses)) if _has_diverged(smoothed[: index + 1])), len(losses))
    best = min(range(num_sound), key=lambda index: smoothed[index])
    return RangeTest(tuple(rates), tuple(losses), tuple(smoothed), rates[best], rates[best] / 10)


def _has_diverged(losses: Sequence[float]) -> bool:
    """Tells whether the newest loss is far above the lowest, relative to the size of these losses."""
    unit = max(abs(losses[0]), abs(min(losses)))
    return not losses[-1] <= min(losses) + (DIVERGED - 1) * unit


def _smooth(losses: Sequence[float]) -> list[float]:
    """Returns the exponential mean of the losses up to each step, with bias correction."""
    mean, smoothed = 0.0, list[float]()
    for count, loss in enumerate(losses, 1):
        mean = SMOOTHING * mean + (1 - SMOOTHING) * loss
        smoothed.append(mean / (1 - SMOOTHING**count))
    return smoothed


def draw_chart(rates: Sequence[float], losses: Sequence[float], marked_rate: float) -> str:
    """Draws losses over the logarithm of the learning rate, in characters. A vertical line stands at the rate
    `marked_rate`."""
    low, high = math.log10(rates[0]), math.log10(rates[-1])
    span = (high - low) or 1.0
    bottom, top = loss_limits(losses)

    def column_of(rate: float) -> int:
        return round((math.log10(rate) - low) / span * (WIDTH - 1))

    grid = [[" "] * WIDTH for _ in range(HEIGHT)]
    if rates[0] <= marked_rate <= rates[-1]:
        for row in grid:
            row[column_of(marked_rate)] = "|"
    for rate, loss in zip(rates, losses, strict=True):
        if math.isfinite(loss) and loss <= top:
            height = (loss - bottom) / ((top - bottom) or 1.0)
            grid[round((1 - height) * (HEIGHT - 1))][column_of(rate)] = "*"
    labels = [f"{top:10.3g} ", *[" " * 11] * (HEIGHT - 2), f"{bottom:10.3g} "]
    lines = [f"{label}{''.join(row).rstrip()}" for label, row in zip(labels, grid, strict=True)]
    begin, end = f"{rates[0]:.1e}", f"{rates[-1]:.1e}"
    return "\n".join([*lines, f"{'':11}{begin}{end:>{WIDTH - len(begin)}}", ""])


def loss_limits(losses: Sequence[float]) -> tuple[float, float]:
    """Returns the lowest and the highest loss to draw. Higher losses, of steps that diverged, would flatten the
    others."""
    finite = [loss for loss in losses if math.isfinite(loss)]
    bottom, top = min(finite), max(finite)
    if finite[0] > bottom:
        top = min(top, bottom + 2 * (finite[0] - bottom))
    return bottom, top
