"""First-layer weights as boards: how large they are by piece and king, the strongest outputs, and PSQT."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from loader.pictures import picture
from pool.tasks.chess.network import Boards
from pool.tasks.chess.pictures.figure import LINE, SIGNED, UNSIGNED, as_board, beside_one_another, masked, show

_COLUMNS = 6
_OUTPUTS = 16  # shown by themselves
_BOARD = 9  # squares, and the gap behind them


def draw_sizes(boards: Boards, path: Path) -> None:
    """Of each piece a small board for each square of the own king: the mean magnitude over all outputs."""
    sizes = _mean_magnitudes(boards)
    ranks, files = len(boards.kings), len(boards.kings[0])
    rows = -(-len(boards.pieces) // _COLUMNS)
    title = "mean magnitude of the first layer's weights (1.0: where activations are cut off), a scale for each piece"
    if ranks > 1:
        last = chr(ord(boards.first_file) + files - 1)
        title += f"\na small board for each square of the own king: files {boards.first_file} to {last}, rank 8 on top"
    with picture(path, title, 2.0 * _COLUMNS, (2.0 * ranks / files + 0.25) * rows + 0.5) as figure:
        grid = list(figure.subplots(rows, _COLUMNS, squeeze=False).flat)
        for p, (axes, piece) in enumerate(zip(grid, boards.pieces, strict=False)):
            squares = masked(piece, sizes[:, p].T).T
            low, high = float(np.nanmin(squares)), float(np.nanmax(squares))
            image = [[as_board(squares[bucket]) for bucket in rank] for rank in reversed(boards.kings)]
            show(axes, beside_one_another(image), UNSIGNED, low, high)
            axes.set_title(f"{piece}: {low:.2f} to {high:.2f}", fontsize=9)
        for axes in grid[len(boards.pieces) :]:
            axes.set_visible(False)


def draw_outputs(boards: Boards, path: Path) -> None:
    """The outputs with the largest weights: a row each, a board for each piece, mean over the kings' buckets."""
    mean = boards.weights.mean(axis=0, dtype=np.float64) / boards.one  # [pieces, 64, outputs]
    strongest = np.argsort(-np.abs(mean).mean(axis=(0, 1)), kind="stable")[:_OUTPUTS]
    rows, names = [], []
    for output in strongest.tolist():
        squares = [masked(piece, mean[p, :, output]) for p, piece in enumerate(boards.pieces)]
        high = float(np.nanmax(np.abs(np.stack(squares)))) or 1.0
        rows.append([as_board(each / high) for each in squares])
        names.append(f"{output}\n±{high:.2g}")
    title = "the outputs with the largest weights, mean over the king's buckets; each row has its own scale"
    with picture(path, title, 0.95 * len(boards.pieces) + 0.8, 0.95 * len(rows) + 0.8) as figure:
        axes = figure.subplots()
        show(axes, beside_one_another(rows), SIGNED, -1.0, 1.0)
        axes.tick_params(length=0, labeltop=True, labelbottom=False, labelsize=8)
        axes.set_xticks(_BOARD * np.arange(len(boards.pieces)) + 3.5, boards.pieces)
        axes.set_yticks(_BOARD * np.arange(len(rows)) + 3.5, names)


def draw_worth(boards: Boards, worth: npt.NDArray[np.float64], path: Path) -> None:
    """PSQT by piece: its mean by square, and its mean by output bucket."""
    by_square = worth.mean(axis=(0, 3))  # [pieces, 64]
    pieces = [p for p, piece in enumerate(boards.pieces) if not piece.startswith("king")]
    with picture(path, "PSQT in internal units, mean over the king's buckets", 13, 8.2) as figure:
        grid = figure.add_gridspec(3, len(pieces) // 2, height_ratios=(1, 1, 1.3))
        for number, p in enumerate(pieces):
            axes = figure.add_subplot(grid[number % 2, number // 2])
            squares = masked(boards.pieces[p], by_square[p])
            centre, spread = float(np.nanmean(squares)), float(np.nanmax(np.abs(squares - np.nanmean(squares)))) or 1.0
            shown = show(axes, as_board(squares), SIGNED, centre - spread, centre + spread)
            axes.set_title(f"{boards.pieces[p]}: {centre:+.0f}", fontsize=9)
            bar = figure.colorbar(shown, ax=axes, shrink=0.8)
            bar.ax.tick_params(labelsize=7)
        axes = figure.add_subplot(grid[2, :])
        for p in pieces[::2]:
            squares = masked(boards.pieces[p], worth[:, p].mean(axis=0))
            axes.plot(range(worth.shape[3]), np.nanmean(squares, axis=0), "o-", markersize=4, label=boards.pieces[p])
        axes.set_xlabel("output bucket (few pieces to many)")
        axes.set_ylabel("mean over the squares")
        axes.axhline(0, color=LINE, linewidth=0.5)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, ncols=len(pieces) // 2, loc="upper center")


def _mean_magnitudes(boards: Boards) -> npt.NDArray[np.float64]:
    """[buckets, pieces, 64]. A bucket at a time: the table is large."""
    return np.stack([np.abs(bucket.astype(np.int32)).mean(axis=2) for bucket in boards.weights]) / boards.one
