"""What all pictures have in common: colours, and boards in many colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

LIMIT = "#c0392b"
LINE = "#2a4a6b"
SIGNED = "RdBu_r"  # white is 0
UNSIGNED = "viridis"
NOTHING = "#e6e6e6"  # squares where a piece never is


def masked(piece: str, squares: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """[64, ...] with NaN where the piece never is."""
    found = np.array(squares, np.float64)
    if piece.endswith("pawn"):
        found[:8] = found[56:] = np.nan
    return found


def as_board(squares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """[64] -> [8, 8], the eighth rank on top."""
    return squares.reshape(8, 8)[::-1]


def beside_one_another(boards: Sequence[Sequence[npt.NDArray[np.float64]]]) -> npt.NDArray[np.float64]:
    """Rows of boards [8, 8] in one image, with a gap of NaN between them."""
    rows = []
    for row in boards:
        padded = [np.pad(board, ((0, 1), (0, 1)), constant_values=np.nan) for board in row]
        rows.append(np.concatenate(padded, axis=1))
    return np.concatenate(rows, axis=0)[:-1, :-1]


def show(axes: Any, image: npt.NDArray[np.float64], colours: str, low: float, high: float) -> Any:
    """The image without ticks; returns what a bar of colours is made of."""
    import matplotlib

    shown = axes.imshow(
        image,
        cmap=matplotlib.colormaps[colours].with_extremes(bad=NOTHING),
        vmin=low,
        vmax=high,
        interpolation="nearest",
    )
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(False)
    return shown
