"""A curve in letters."""

from __future__ import annotations

import math
from collections.abc import Sequence

WIDTH, HEIGHT = 64, 14


def draw(rates: Sequence[float], losses: Sequence[float], marked: float) -> str:
    """Losses over the logarithm of the rate; the columns at `marked` have a line."""
    low, high = math.log10(rates[0]), math.log10(rates[-1])
    span = (high - low) or 1.0
    bottom, top = limits(losses)

    def column_of(rate: float) -> int:
        return round((math.log10(rate) - low) / span * (WIDTH - 1))

    grid = [[" "] * WIDTH for _ in range(HEIGHT)]
    if rates[0] <= marked <= rates[-1]:
        for row in grid:
            row[column_of(marked)] = "|"
    for rate, loss in zip(rates, losses, strict=True):
        if math.isfinite(loss) and loss <= top:
            height = (loss - bottom) / ((top - bottom) or 1.0)
            grid[round((1 - height) * (HEIGHT - 1))][column_of(rate)] = "*"
    labels = [f"{top:10.3g} ", *[" " * 11] * (HEIGHT - 2), f"{bottom:10.3g} "]
    lines = [f"{label}{''.join(row).rstrip()}" for label, row in zip(labels, grid, strict=True)]
    begin, end = f"{rates[0]:.1e}", f"{rates[-1]:.1e}"
    return "\n".join([*lines, f"{'':11}{begin}{end:>{WIDTH - len(begin)}}", ""])


def limits(losses: Sequence[float]) -> tuple[float, float]:
    """The lowest and the highest that are worth drawing: what has diverged would flatten the rest."""
    finite = [loss for loss in losses if math.isfinite(loss)]
    bottom, top = min(finite), max(finite)
    return bottom, min(top, bottom + 2 * (finite[0] - bottom)) if finite[0] > bottom else top
