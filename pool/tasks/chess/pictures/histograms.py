"""How the integers of each tensor are distributed, and where their limits are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loader.pictures import picture
from pool.tasks.chess.network import TensorFacts
from pool.tasks.chess.pictures.figure import LIMIT, LINE

_COLUMNS = 3
_BINS = 121
_NEAR = 0.2  # of its limits: tensors that use less have an axis that is logarithmic from some number on


def draw_histograms(facts: Sequence[TensorFacts], tensors: Mapping[str, npt.NDArray[Any]], path: Path) -> None:
    """A panel a tensor of integers."""
    facts = [fact for fact in facts if fact.limits is not None]
    rows = -(-len(facts) // _COLUMNS)
    title = "integers of each tensor, share of the numbers; red: limits of the integer type, or of training"
    with picture(path, title, 4.4 * _COLUMNS, 2.1 * rows + 0.5) as figure:
        grid = list(figure.subplots(rows, _COLUMNS, squeeze=False).flat)
        for axes, fact in zip(grid, facts, strict=False):
            _panel(axes, fact, tensors[fact.name])
        for axes in grid[len(facts) :]:
            axes.set_visible(False)


def _panel(axes: Any, fact: TensorFacts, values: npt.NDArray[Any]) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    borders, bend = _borders(fact)
    counts = np.histogram(values.reshape(-1), borders)[0] / values.size
    axes.stairs(counts, _placed(borders, bend), fill=True, color=LINE)
    axes.set_yscale("log")
    top = 2.0 * float(counts.max())
    axes.set_ylim(min(0.5 * float(counts[counts > 0].min()), top / 100), top)
    axes.yaxis.set_major_locator(LogLocator(numticks=5))
    axes.yaxis.set_minor_formatter(NullFormatter())
    for limit in _limits(fact):
        axes.axvline(_placed(limit, bend), color=LIMIT, linewidth=1.2)
    ticks = _ticks(fact, bend)
    axes.set_xticks(_placed(np.array(ticks), bend), [f"{tick:,}" for tick in ticks])
    axes.tick_params(labelsize=7)
    axes.margins(x=0.04)
    axes.set_title(f"{fact.name} ({fact.kind}): {fact.used:.3g} of the range, {fact.clipped:,} clipped", fontsize=8)


def _borders(fact: TensorFacts) -> tuple[npt.NDArray[np.float64], float]:
    """Between whole numbers, evenly along the axis; and the number from which on it is logarithmic (0: nowhere)."""
    low, high = _limits(fact)
    if fact.used >= _NEAR:
        step = max(1, -(-(high - low + 1) // _BINS))
        return np.array(range(low, high + step + 1, step), np.float64) - np.float64(0.5), 0.0
    bend = max(8.0, max(-fact.smallest, fact.largest) / 20)
    end = np.arcsinh(max(-low, high) / bend)
    whole = np.round(np.sinh(np.linspace(-end, end, _BINS + 1, dtype=np.float64)) * bend)
    return np.unique(whole).astype(np.float64) - np.float64(0.5), bend


def _limits(fact: TensorFacts) -> tuple[int, int]:
    assert fact.limits is not None
    return fact.limits


def _placed(numbers: Any, bend: float) -> Any:
    """On the axis."""
    return np.arcsinh(np.asarray(numbers) / bend) if bend else numbers


def _ticks(fact: TensorFacts, bend: float) -> list[int]:
    low, high = _limits(fact)
    if not bend:
        return [low, low // 2, 0, high // 2, high]
    power = 10 ** max(1, round(math.log10(max(-fact.smallest, fact.largest, 10))))
    return [low, -power, 0, power, high]
