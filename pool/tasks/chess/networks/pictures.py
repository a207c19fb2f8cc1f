"""Draws a network's integers: histograms of the tensors, first-layer weights as boards, PSQT, activations.

Imports matplotlib, which need not be installed, only when something is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loader.pictures import open_figure
from pool.errors import PoolError
from pool.tasks.chess.network import FileNetwork, FirstLayerBoards, NetworkSummary, TensorSummary
from pool.tasks.chess.pair_order import BLOCK
from pool.tasks.chess.positions import Position

# late imports: matplotlib need not be installed

_LIMIT = "#c0392b"
_LINE = "#2a4a6b"
_SIGNED = "RdBu_r"  # white is 0
_UNSIGNED = "viridis"
_NOTHING = "#e6e6e6"  # colour of squares where a piece can't be
_TENSORS_A_ROW = 3  # histograms in a row
_BINS = 121
_NEAR = 0.2  # of the range: tensors that use less get an axis that is logarithmic from some number on
_PIECES_A_ROW = 6  # boards in a row
_OUTPUTS = 16  # number of outputs that are drawn
_BOARD = 9  # width of a board and of the gap after it, in squares
_AT_ONCE = 256  # positions


def draw(
    network: FileNetwork,
    facts: NetworkSummary,
    positions: Sequence[Position],
    folder: Path,
    check: Callable[[Sequence[Path]], object],
) -> list[Path]:
    """Draws all pictures of a network into a folder and returns their files. There are boards only if its inputs are
    pieces on squares, and activations only if there are positions. `check` is called with the files before anything is
    drawn. Raises PoolError."""
    boards = network.boards()
    pictures: dict[str, Callable[[Path], object]] = {
        "histograms": lambda path: draw_histograms(facts.tensors, network.tensors, path)
    }
    if boards is not None:
        pictures["first-layer"] = lambda path: draw_sizes(boards, path)
        pictures["outputs"] = lambda path: draw_outputs(boards, path)
        if (worth := boards.worth) is not None:
            pictures["psqt"] = lambda path: draw_worth(boards, worth, path)
    if positions:
        pictures["zeros"] = lambda path: draw_zeros(network, positions, path)
    paths = {name: folder / f"{name}.png" for name in pictures}
    check(list(paths.values()))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, draw_one in pictures.items():
            draw_one(paths[name])
    except OSError as error:
        raise PoolError(f"{error.filename or folder}: {error.strerror}") from None
    return list(paths.values())


def draw_histograms(facts: Sequence[TensorSummary], tensors: Mapping[str, npt.NDArray[Any]], path: Path) -> None:
    """Draws a histogram for each tensor of integers."""
    facts = [fact for fact in facts if fact.limits is not None]
    rows = -(-len(facts) // _TENSORS_A_ROW)
    title = "integers of each tensor, share of the numbers; red: limits of the integer type, or of training"
    with open_figure(path, title, 4.4 * _TENSORS_A_ROW, 2.1 * rows + 0.5) as figure:
        grid = list(figure.subplots(rows, _TENSORS_A_ROW, squeeze=False).flat)
        for axes, fact in zip(grid, facts, strict=False):
            _panel(axes, fact, tensors[fact.name])
        for axes in grid[len(facts) :]:
            axes.set_visible(False)


def _panel(axes: Any, fact: TensorSummary, values: npt.NDArray[Any]) -> None:
    """Draws the histogram of one tensor, with its limits."""
    from matplotlib.ticker import LogLocator, NullFormatter

    borders, bend = _borders(fact)
    counts = np.histogram(values.reshape(-1), borders)[0] / values.size
    axes.stairs(counts, _placed(borders, bend), fill=True, color=_LINE)
    axes.set_yscale("log")
    top = 2.0 * float(counts.max())
    axes.set_ylim(min(0.5 * float(counts[counts > 0].min()), top / 100), top)
    axes.yaxis.set_major_locator(LogLocator(numticks=5))
    axes.yaxis.set_minor_formatter(NullFormatter())
    for limit in _limits(fact):
        axes.axvline(_placed(limit, bend), color=_LIMIT, linewidth=1.2)
    ticks = _ticks(fact, bend)
    axes.set_xticks(_placed(np.array(ticks), bend), [f"{tick:,}" for tick in ticks])
    axes.tick_params(labelsize=7)
    axes.margins(x=0.04)
    axes.set_title(f"{fact.name} ({fact.kind}): {fact.used:.3g} of the range, {fact.clipped:,} clipped", fontsize=8)


def _borders(fact: TensorSummary) -> tuple[npt.NDArray[np.float64], float]:
    """Returns the borders of a histogram's bins, which lie between whole numbers and evenly along the axis. Also
    returns the number from which on the axis is logarithmic, or 0 if it is linear throughout."""
    low, high = _limits(fact)
    if fact.used >= _NEAR:
        step = max(1, -(-(high - low + 1) // _BINS))
        return np.array(range(low, high + step + 1, step), np.float64) - np.float64(0.5), 0.0
    bend = max(8.0, max(-fact.smallest, fact.largest) / 20)
    end = np.arcsinh(max(-low, high) / bend)
    whole = np.round(np.sinh(np.linspace(-end, end, _BINS + 1, dtype=np.float64)) * bend)
    return np.unique(whole).astype(np.float64) - np.float64(0.5), bend


def _limits(fact: TensorSummary) -> tuple[int, int]:
    assert fact.limits is not None
    return fact.limits


def _placed(numbers: Any, bend: float) -> Any:
    """Returns the positions of numbers on an axis that is logarithmic from `bend` on, or linear if that is 0."""
    return np.arcsinh(np.asarray(numbers) / bend) if bend else numbers


def _ticks(fact: TensorSummary, bend: float) -> list[int]:
    """Returns the numbers that are marked on the axis of a histogram."""
    low, high = _limits(fact)
    if not bend:
        return [low, low // 2, 0, high // 2, high]
    power = 10 ** max(1, round(math.log10(max(-fact.smallest, fact.largest, 10))))
    return [low, -power, 0, power, high]


def draw_sizes(boards: FirstLayerBoards, path: Path) -> None:
    """Draws the mean magnitude of the weights over all outputs: for each piece, a small board for each square of the
    own king."""
    sizes = _mean_magnitudes(boards)
    ranks, files = len(boards.kings), len(boards.kings[0])
    rows = -(-len(boards.pieces) // _PIECES_A_ROW)
    title = "mean magnitude of the first layer's weights (1.0: where activations are cut off), a scale for each piece"
    if ranks > 1:
        last = chr(ord(boards.first_file) + files - 1)
        title += f"\na small board for each square of the own king: files {boards.first_file} to {last}, rank 8 on top"
    with open_figure(path, title, 2.0 * _PIECES_A_ROW, (2.0 * ranks / files + 0.25) * rows + 0.5) as figure:
        grid = list(figure.subplots(rows, _PIECES_A_ROW, squeeze=False).flat)
        for p, (axes, piece) in enumerate(zip(grid, boards.pieces, strict=False)):
            squares = masked(piece, sizes[:, p].T).T
            low, high = float(np.nanmin(squares)), float(np.nanmax(squares))
            image = [[as_board(squares[bucket]) for bucket in rank] for rank in reversed(boards.kings)]
            show(axes, beside_one_another(image), _UNSIGNED, low, high)
            axes.set_title(f"{piece}: {low:.2f} to {high:.2f}", fontsize=9)
        for axes in grid[len(boards.pieces) :]:
            axes.set_visible(False)


def draw_outputs(boards: FirstLayerBoards, path: Path) -> None:
    """Draws the weights of the outputs that have the largest: a row for each output, a board for each piece, the mean
    over the king's buckets."""
    mean = boards.weights.mean(axis=0, dtype=np.float64) / boards.one  # [pieces, 64, outputs]
    strongest = np.argsort(-np.abs(mean).mean(axis=(0, 1)), kind="stable")[:_OUTPUTS]
    rows, names = [], []
    for output in strongest.tolist():
        squares = [masked(piece, mean[p, :, output]) for p, piece in enumerate(boards.pieces)]
        high = float(np.nanmax(np.abs(np.stack(squares)))) or 1.0
        rows.append([as_board(each / high) for each in squares])
        names.append(f"{output}\n±{high:.2g}")
    title = "the outputs with the largest weights, mean over the king's buckets; each row has its own scale"
    with open_figure(path, title, 0.95 * len(boards.pieces) + 0.8, 0.95 * len(rows) + 0.8) as figure:
        axes = figure.subplots()
        show(axes, beside_one_another(rows), _SIGNED, -1.0, 1.0)
        axes.tick_params(length=0, labeltop=True, labelbottom=False, labelsize=8)
        axes.set_xticks(_BOARD * np.arange(len(boards.pieces)) + 3.5, boards.pieces)
        axes.set_yticks(_BOARD * np.arange(len(rows)) + 3.5, names)


def draw_worth(boards: FirstLayerBoards, worth: npt.NDArray[np.float64], path: Path) -> None:
    """Draws the PSQT values of each piece: their mean by square, and their mean by output bucket."""
    by_square = worth.mean(axis=(0, 3))  # [pieces, 64]
    pieces = [p for p, piece in enumerate(boards.pieces) if not piece.startswith("king")]
    with open_figure(path, "PSQT in internal units, mean over the king's buckets", 13, 8.2) as figure:
        grid = figure.add_gridspec(3, len(pieces) // 2, height_ratios=(1, 1, 1.3))
        for number, p in enumerate(pieces):
            axes = figure.add_subplot(grid[number % 2, number // 2])
            squares = masked(boards.pieces[p], by_square[p])
            centre, spread = float(np.nanmean(squares)), float(np.nanmax(np.abs(squares - np.nanmean(squares)))) or 1.0
            shown = show(axes, as_board(squares), _SIGNED, centre - spread, centre + spread)
            axes.set_title(f"{boards.pieces[p]}: {centre:+.0f}", fontsize=9)
            bar = figure.colorbar(shown, ax=axes, shrink=0.8)
            bar.ax.tick_params(labelsize=7)
        axes = figure.add_subplot(grid[2, :])
        for p in pieces[::2]:
            squares = masked(boards.pieces[p], worth[:, p].mean(axis=0))
            axes.plot(range(worth.shape[3]), np.nanmean(squares, axis=0), "o-", markersize=4, label=boards.pieces[p])
        axes.set_xlabel("output bucket (few pieces to many)")
        axes.set_ylabel("mean over the squares")
        axes.axhline(0, color=_LINE, linewidth=0.5)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, ncols=len(pieces) // 2, loc="upper center")


def _mean_magnitudes(boards: FirstLayerBoards) -> npt.NDArray[np.float64]:
    """Returns the mean magnitude of the weights over all outputs, [buckets, pieces, 64]. Computes one bucket at a time,
    as the table is large."""
    return np.stack([np.abs(bucket.astype(np.int32)).mean(axis=2) for bucket in boards.weights]) / boards.one


def draw_zeros(network: FileNetwork, positions: Sequence[Position], path: Path) -> None:
    """Draws how often each activation of the first layer is 0. Both sides of each position count."""
    zeros = np.concatenate(
        [network.activations(positions[start : start + _AT_ONCE]) == 0 for start in range(0, len(positions), _AT_ONCE)]
    )
    sides = zeros.reshape(2 * len(positions), -1)
    share = sides.mean(axis=0)
    usable = sides.shape[1] // BLOCK * BLOCK
    blocks = sides[:, :usable].reshape(len(sides), -1, BLOCK).all(axis=2).mean()
    always, never = int((share == 1).sum()), int((share == 0).sum())
    title = (
        f"zeros behind the first layer, {len(positions):,} positions: {share.mean():.1%} of the inputs, "
        f"{blocks:.1%} of blocks of {BLOCK}; always 0: {always} of {len(share)}, never: {never}"
    )
    with open_figure(path, title, 11, 4.2) as figure:
        by_place, by_size = figure.subplots(1, 2)
        by_place.plot(np.arange(len(share)), share, ".", color=_LINE, markersize=3)
        by_place.set_xlabel("place in the network")
        by_place.set_ylabel("share of positions where it is 0")
        by_size.plot(np.arange(len(share)), np.sort(share)[::-1], color=_LINE)
        by_size.axhline(float(share.mean()), color=_LIMIT, linewidth=1, label=f"mean {share.mean():.1%}")
        by_size.set_xlabel("in order of that share")
        by_size.legend(fontsize=8)
        for axes in (by_place, by_size):
            axes.set_ylim(-0.02, 1.02)
            axes.grid(alpha=0.3)


def masked(piece: str, squares: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Returns the squares' values [64, ...] with NaN where the piece can't be: pawns on the first and last rank."""
    board = np.array(squares, np.float64)
    if piece.endswith("pawn"):
        board[:8] = board[56:] = np.nan
    return board


def as_board(squares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Reshapes [64] to [8, 8] with the eighth rank on top."""
    return squares.reshape(8, 8)[::-1]


def beside_one_another(boards: Sequence[Sequence[npt.NDArray[np.float64]]]) -> npt.NDArray[np.float64]:
    """Joins rows of boards [8, 8] into one image, with a gap of NaN between them."""
    rows = []
    for row in boards:
        padded = [np.pad(board, ((0, 1), (0, 1)), constant_values=np.nan) for board in row]
        rows.append(np.concatenate(padded, axis=1))
    return np.concatenate(rows, axis=0)[:-1, :-1]


def show(axes: Any, image: npt.NDArray[np.float64], colours: str, low: float, high: float) -> Any:
    """Shows an image without ticks, and returns the object that a colour bar is made from."""
    import matplotlib

    shown = axes.imshow(
        image,
        cmap=matplotlib.colormaps[colours].with_extremes(bad=_NOTHING),
        vmin=low,
        vmax=high,
        interpolation="nearest",
    )
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(False)
    return shown
