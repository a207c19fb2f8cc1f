"""Pictures through matplotlib, which is imported when one is drawn: it is in the extra `pictures`."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loader.errors import UsageError
from loader.files.whole_file import write_whole

# late imports: matplotlib is an extra, and takes long to load

_DOTS = 110  # an inch


def need_matplotlib(option: str) -> None:
    """Before any work is done. Raises UsageError that names the option if there is none."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError(f"{option}: needs matplotlib, which is not installed: pip install 'sparsepool[pictures]'")


@contextmanager
def picture(path: Path, title: str, width: float, height: float) -> Iterator[Any]:
    """A figure to draw on, in inches; the file is written when all is drawn. Raises OSError."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=11)
    yield figure
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=_DOTS)
    write_whole(path, written.getvalue())
