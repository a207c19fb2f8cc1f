"""Draws pictures with matplotlib, of the extra `pictures`, which is imported only when one is drawn."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loader.errors import UsageError
from loader.files.whole_file import write_atomically

# late imports: matplotlib is an extra, and takes long to load

_DOTS_PER_INCH = 110


def require_matplotlib(option: str) -> None:
    """Checks that matplotlib is installed, which the command-line option `option` needs. Raises UsageError if it is
    not. Commands call this before they begin to work."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError(f"{option}: needs matplotlib, which is not installed: pip install 'sparsepool[pictures]'")


@contextmanager
def open_figure(path: Path, title: str, width: float, height: float) -> Iterator[Any]:
    """Yields a matplotlib figure of this size in inches to draw on, and writes it to `path` as PNG at the end. Raises
    OSError."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=11)
    yield figure
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=_DOTS_PER_INCH)
    write_atomically(path, png.getvalue())
