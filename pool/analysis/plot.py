"""Curves through matplotlib, which is not one of the packages that this one needs."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loader.pictures import need_matplotlib
from pool.analysis.range_test import RangeTest, limits
from pool.analysis.records import Run
from pool.errors import ConfigError

# late imports: matplotlib is an extra, and takes long to load

SUFFIXES = (".png", ".svg")


def check_plot(path: Path) -> None:
    """Raises CommandError, before any work is done, if there is no matplotlib, or for another kind of file."""
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"--plot {path}: the name of a file that ends in {' or '.join(SUFFIXES)} is expected")
    need_matplotlib("--plot")


@contextmanager
def axes(path: Path, x: str) -> Iterator[Any]:
    """Gives axes to draw losses on; the picture is written when all is drawn. Raises OSError."""
    # late: matplotlib need not be installed
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), layout="constrained")
    FigureCanvasAgg(figure)
    drawn = figure.add_subplot(xlabel=x, ylabel="loss")
    drawn.grid(alpha=0.3)
    yield drawn
    picture = io.BytesIO()
    figure.savefig(picture, format=path.suffix[1:], dpi=120)
    path.write_bytes(picture.getvalue())


def plot_runs(runs: Sequence[Run], path: Path) -> None:
    """Draws loss by step: a line of the training, points of the validations. Raises OSError."""
    with axes(path, "step") as drawn:
        for run in runs:
            steps = [record["step"] for record in run.steps]
            (line,) = drawn.plot(steps, [record["loss"] for record in run.steps], linewidth=0.8, label=run.name)
            if run.validations:
                at, losses = zip(*run.validations, strict=True)
                drawn.plot(at, losses, "o-", color=line.get_color(), markersize=4, label=f"{run.name}: validation")
        drawn.legend()


def plot_rates(test: RangeTest, path: Path) -> None:
    """Draws losses by learning rate, as high as the drawing in letters. Raises OSError."""
    with axes(path, "learning rate") as drawn:
        drawn.set_xscale("log")
        drawn.plot(test.rates, test.losses, linewidth=0.5, alpha=0.5, label="loss")
        drawn.plot(test.rates, test.smoothed, label="smoothed")
        drawn.axvline(test.suggested, color="black", linestyle="--", label=f"suggested: {test.suggested:.2g}")
        bottom, top = limits(test.smoothed)
        margin = 0.05 * (top - bottom) or 1.0
        drawn.set_ylim(bottom - margin, top + margin)
        drawn.legend()
