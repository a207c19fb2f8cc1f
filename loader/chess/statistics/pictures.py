"""Draws the statistics of a file as pictures: scores and results, kinds of positions, squares of kings. Panels for what
the format does not store are omitted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loader.chess.filters import MOVE, PLY
from loader.chess.statistics.calibration import MAX_SCORE, STEP, logistic
from loader.chess.statistics.distribution import Counts
from loader.chess.statistics.statistics import FileStatistics
from loader.chess.views import ZERO
from loader.pictures import open_figure

_LINE, _MODEL, _FIT = "#2a4a6b", "#c0392b", "#7f8c8d"
_LOST, _DRAWN, _WON = "#b0413e", "#c9c2b3", "#3f7f5f"
_MIN_POSITIONS = 20  # positions that a point of the curve needs
_COLUMNS = 3
_MAX_BARS = 120  # bars of a histogram, about


def draw_pictures(statistics: FileStatistics, folder: Path) -> list[Path]:
    """Draws the pictures of a file into a folder, which is created if necessary. Returns their paths, none for a file
    without positions. Raises OSError."""
    if not statistics.entries:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    draw_functions = (_draw_scores, _draw_positions, _draw_kings)
    for path, draw in zip(picture_paths(folder), draw_functions, strict=True):
        draw(statistics, path)
    return picture_paths(folder)


def picture_paths(folder: Path) -> list[Path]:
    """Returns the paths of the pictures in a folder."""
    return [folder / f"{name}.png" for name in ("scores", "positions", "kings")]


def _title(statistics: FileStatistics, topic: str) -> str:
    return f"{Path(statistics.facts.file).name}, {statistics.entries:,} positions: {topic}"


def _draw_scores(statistics: FileStatistics, path: Path) -> None:
    """Draws the picture of scores: a histogram by result, and the mean result by score."""
    with open_figure(path, _title(statistics, "scores and results of the side to move"), 11, 4.8) as figure:
        left, right = figure.subplots(1, 2)
        _draw_score_histogram(left, statistics)
        _draw_calibration(right, statistics)


def _draw_score_histogram(axes: Any, statistics: FileStatistics) -> None:
    """Draws the distribution of scores, stacked by result."""
    edges = np.arange(-MAX_SCORE, MAX_SCORE + 1, STEP)
    results = statistics.calibration().results[:, ZERO - MAX_SCORE : ZERO + MAX_SCORE]
    parts = results.reshape(3, -1, STEP).sum(axis=2) / statistics.entries * 100
    below = np.zeros(len(edges) - 1)
    for part, colour, name in zip(parts, (_LOST, _DRAWN, _WON), ("lost", "drawn", "won"), strict=True):
        axes.stairs(below + part, edges, baseline=below, fill=True, color=colour, label=name)
        below = below + part
    beyond = int(statistics.calibration().results.sum()) - int(results.sum())
    axes.set_title(f"scores, by result; {beyond / statistics.entries:.1%} are beyond ±{MAX_SCORE:,}", fontsize=9)
    axes.set(xlabel="score", ylabel=f"% of positions, in steps of {STEP}", xlim=(-MAX_SCORE, MAX_SCORE))
    axes.legend(fontsize=8, frameon=False)


def _draw_calibration(axes: Any, statistics: FileStatistics) -> None:
    """Draws the mean result by score with its noise, beside the win-rate model and the best curve."""
    calibration = statistics.calibration()
    inner = [interval for interval in calibration.intervals() if interval.low is not None and interval.high is not None]
    middles = np.arange(-MAX_SCORE, MAX_SCORE, STEP, dtype=np.float64) + np.float64(STEP / 2)
    entries = np.array([interval.entries for interval in inner])
    shown = entries >= _MIN_POSITIONS
    results = np.array([np.nan if interval.result is None else interval.result for interval in inner])
    noise = 0.5 / np.sqrt(np.maximum(entries, 1))  # two deviations at most, of results that are halves apart
    axes.fill_between(middles[shown], (results - noise)[shown], (results + noise)[shown], color=_LINE, alpha=0.2, lw=0)
    axes.plot(middles[shown], results[shown], color=_LINE, linewidth=1.6, label="results")
    model = np.array([np.nan if interval.model is None else interval.model for interval in inner])
    if not np.isnan(model).all():
        axes.plot(middles, model, color=_MODEL, linewidth=1.3, label="win-rate model, at the plies of the positions")
    scale = calibration.scale()
    if scale is not None:
        label = f"1 / (1 + e^(-score / {scale:,.1f}))"
        axes.plot(
            middles, logistic(middles / np.float64(scale)), color=_FIT, linewidth=1.1, linestyle="--", label=label
        )
    axes.set(xlabel="score", ylabel="mean result; a draw is 0.5", xlim=(-MAX_SCORE, MAX_SCORE), ylim=(-0.02, 1.02))
    axes.set_title("score against result", fontsize=9)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, frameon=False, loc="upper left")


def _draw_positions(statistics: FileStatistics, path: Path) -> None:
    """Draws histograms of pieces, material, phase, ply and length of games, and of kinds of moves."""
    counts = statistics.counts
    panels: list[tuple[str, Counts]] = [
        ("pieces", counts.piece_counts),
        ("material of both sides: 1, 3, 3, 5, 9", counts.materials),
        ("phase: 24 with all pieces, 0 without", counts.phases),
    ]
    if statistics.has(PLY):
        panels.append(("ply", counts.plies))
    if statistics.facts.unit:
        panels.append((f"positions of a {statistics.facts.unit}", counts.lengths))
    has_moves = statistics.has(MOVE)
    num_panels = len(panels) + has_moves
    rows = -(-num_panels // _COLUMNS)
    with open_figure(path, _title(statistics, "what positions are there"), 11, 2.7 * rows + 0.4) as figure:
        grid = list(figure.subplots(rows, _COLUMNS, squeeze=False).flat)
        for axes, (title, counts_of_panel) in zip(grid, panels, strict=False):
            _draw_histogram(axes, title, counts_of_panel)
        if has_moves:
            _draw_moves(grid[len(panels)], statistics)
        for axes in grid[num_panels:]:
            axes.set_visible(False)


def _draw_histogram(axes: Any, title: str, counts: Counts) -> None:
    """Draws a histogram of counts, without the last 0.05 %, in at most about 120 bars."""
    total = int(counts.sum())
    shares = counts / max(total, 1) * 100
    last = int(np.searchsorted(np.cumsum(counts), 0.9995 * total)) + 1 if total else 1
    width = max(1, -(-last // _MAX_BARS))
    last = -(-last // width) * width
    shares = np.pad(shares[:last], (0, max(0, last - len(shares))))
    axes.stairs(shares.reshape(-1, width).sum(axis=1), np.arange(0, last + 1, width) - 0.5, fill=True, color=_LINE)
    axes.set_title(title, fontsize=9)
    axes.set_ylabel("%" if width == 1 else f"%, in steps of {width}", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.margins(x=0.02)


def _draw_moves(axes: Any, statistics: FileStatistics) -> None:
    """Draws the shares of captures and of moves that are not normal."""
    moves = statistics.moves()
    del moves["normal"]
    shown = {"captures": statistics.counts.captures, **{name.replace("_", " "): n for name, n in moves.items() if n}}
    shares = [100 * count / statistics.entries for count in shown.values()]
    bars = axes.barh(list(shown), shares, color=_LINE)
    axes.bar_label(bars, [f"{share:.2f} %" for share in shares], fontsize=8, padding=2)
    axes.invert_yaxis()
    axes.margins(x=0.18)
    axes.set_title("moves that are not quiet; promotions may be captures too", fontsize=9)
    axes.tick_params(labelsize=8)


def _draw_kings(statistics: FileStatistics, path: Path) -> None:
    """Draws the squares of the kings of both sides, and the king buckets that they use."""
    own = statistics.counts.own_kings
    opponent = statistics.counts.opponent_kings[np.arange(64) ^ 56]
    buckets = statistics.buckets()
    columns = 3 if buckets else 2
    title = _title(statistics, "kings, % of positions")
    with open_figure(path, title, 4.3 * columns, 4.3) as figure:
        grid = list(figure.subplots(1, columns))
        for axes, squares, name in ((grid[0], own, "side to move"), (grid[1], opponent, "other side")):
            _draw_board(axes, squares / statistics.entries * 100, f"{name}, as it sees the board")
        if buckets:
            _draw_bucket_bars(grid[2], buckets)


def _draw_board(axes: Any, shares: npt.NDArray[np.float64], title: str) -> None:
    """Draws shares in percent on a chessboard. [64] by square, a1 first."""
    board = shares.reshape(8, 8)
    axes.imshow(np.sqrt(board), cmap="Blues", origin="lower", vmin=0)
    bright = 0.5 * float(np.sqrt(board.max()))
    for square, share in enumerate(shares):
        colour = "white" if np.sqrt(share) > bright else "black"
        text = f"{share:.1f}" if share else ""
        axes.text(square % 8, square // 8, text, ha="center", va="center", fontsize=8, color=colour)
    axes.set_xticks(range(8), "abcdefgh")
    axes.set_yticks(range(8), range(1, 9))
    axes.tick_params(length=0, labelsize=8)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_title(title, fontsize=9)


def _draw_bucket_bars(axes: Any, buckets: Sequence[int]) -> None:
    shares = [100 * count / max(sum(buckets), 1) for count in buckets]
    axes.bar(range(len(buckets)), shares, color=_LINE)
    axes.axhline(100 / len(buckets), color=_FIT, linestyle="--", linewidth=1)
    axes.set(xlabel="bucket of the layout", ylabel="%, of both sides; dashed: all alike")
    axes.set_title("king buckets", fontsize=9)
    if len(buckets) <= 16:
        axes.set_xticks(range(len(buckets)))
