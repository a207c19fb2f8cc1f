"""Draws a learning-rate range test by matplotlib, which is an optional dependency."""

from __future__ import annotations

import io
from pathlib import Path

from loader.pictures import require_matplotlib
from pool.analysis.range_test import RangeTest, loss_limits
from pool.errors import ConfigError

# late imports: matplotlib is an extra, and takes long to load

SUFFIXES = (".png", ".svg")


def check_plot(path: Path) -> None:
    """Checks, before any work is done, that the file's name ends in a known suffix and that matplotlib is installed.
    Raises ConfigError for another suffix, and UsageError without matplotlib."""
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"--plot {path}: the name of a file that ends in {' or '.join(SUFFIXES)} is expected")
    require_matplotlib("--plot")


def plot_rates(test: RangeTest, path: Path) -> None:
    """Draws the losses by learning rate to a file, with the vertical limits of the chart in the terminal. Raises
    OSError."""
    # late: matplotlib need not be installed
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(xlabel="learning rate", ylabel="loss")
    axes.grid(alpha=0.3)
    axes.set_xscale("log")
    axes.plot(test.rates, test.losses, linewidth=0.5, alpha=0.5, label="loss")
    axes.plot(test.rates, test.smoothed, label="smoothed")
    axes.axvline(test.suggested, color="black", linestyle="--", label=f"suggested: {test.suggested:.2g}")
    bottom, top = loss_limits(test.smoothed)
    margin = 0.05 * (top - bottom) or 1.0
    axes.set_ylim(bottom - margin, top + margin)
    axes.legend()
    picture = io.BytesIO()
    figure.savefig(picture, format=path.suffix[1:], dpi=120)
    path.write_bytes(picture.getvalue())
