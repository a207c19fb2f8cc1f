"""How often each input of the layer behind the first is 0 over given positions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from loader.pictures import picture
from pool.tasks.chess.export.sparsity import BLOCK
from pool.tasks.chess.network import LayeredNetwork
from pool.tasks.chess.pictures.figure import LIMIT, LINE
from pool.tasks.chess.positions import Position

_AT_ONCE = 256


def draw_zeros(network: LayeredNetwork, positions: Sequence[Position], path: Path) -> None:
    """Both sides of each position count."""
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
    with picture(path, title, 11, 4.2) as figure:
        by_place, by_size = figure.subplots(1, 2)
        by_place.plot(np.arange(len(share)), share, ".", color=LINE, markersize=3)
        by_place.set_xlabel("place in the network")
        by_place.set_ylabel("share of positions where it is 0")
        by_size.plot(np.arange(len(share)), np.sort(share)[::-1], color=LINE)
        by_size.axhline(float(share.mean()), color=LIMIT, linewidth=1, label=f"mean {share.mean():.1%}")
        by_size.set_xlabel("in order of that share")
        by_size.legend(fontsize=8)
        for axes in (by_place, by_size):
            axes.set_ylim(-0.02, 1.02)
            axes.grid(alpha=0.3)
