"""Curves through matplotlib, which is not one of the packages that this one needs."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pool.analysis.drawing import limits
from pool.analysis.rates import RangeTest
from pool.analysis.records import Run
from pool.errors import ConfigError

# late imports: matplotlib is an extra, and takes long to load

SUFFIXES = (".png", ".svg")


def check_plot(path: Path) -> None:
    """Before any work is done: raises ConfigError if there is no matplotlib, or for another kind of file."""
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"--plot {path}: the name of a file that ends in {' or '.join(SUFFIXES)} is expected")
    need_matplotlib("--plot")


def need_matplotlib(option: str) -> None:
    """Raises ConfigError that names the option if there is none."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ConfigError(f"{option}: needs matplotlib, which is not installed: pip install 'sparsepool[pictures]'")


@contextmanager
def axes(path: Path, x: str, y: str) -> Iterator[Any]:
    """Axes to draw on; the picture is written when all is drawn. Raises OSError."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), layout="constrained")
    FigureCanvasAgg(figure)
    drawn = figure.add_subplot(xlabel=x, ylabel=y)
    drawn.grid(alpha=0.3)
    yield drawn
    picture = io.BytesIO()
    figure.savefig(picture, format=path.suffix[1:], dpi=120)
    path.write_bytes(picture.getvalue())


def plot_runs(runs: Sequence[Run], path: Path) -> None:
    """Loss by step: a line of the training, points of the validations. Raises OSError."""
    with axes(path, "step", "loss") as drawn:
        for run in runs:
            steps = [record["step"] for record in run.steps]
            (line,) = drawn.plot(steps, [record["loss"] for record in run.steps], linewidth=0.8, label=run.name)
            if run.validations:
                at, losses = zip(*run.validations, strict=True)
                drawn.plot(at, losses, "o-", color=line.get_color(), markersize=4, label=f"{run.name}: validation")
        drawn.legend()


def plot_rates(found: RangeTest, path: Path) -> None:
    """Losses by learning rate, as high as the drawing in letters. Raises OSError."""
    with axes(path, "learning rate", "loss") as drawn:
        drawn.set_xscale("log")
        drawn.plot(found.rates, found.losses, linewidth=0.5, alpha=0.5, label="loss")
        drawn.plot(found.rates, found.smoothed, label="smoothed")
        drawn.axvline(found.suggested, color="black", linestyle="--", label=f"suggested: {found.suggested:.2g}")
        bottom, top = limits(found.smoothed)
        margin = 0.05 * (top - bottom) or 1.0
        drawn.set_ylim(bottom - margin, top + margin)
        drawn.legend()
