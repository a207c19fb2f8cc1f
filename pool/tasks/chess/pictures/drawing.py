"""All pictures of a network, in a folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pool.errors import PoolError
from pool.tasks.chess.network import Boards, Facts, LayeredNetwork
from pool.tasks.chess.pictures.activity import draw_zeros
from pool.tasks.chess.pictures.boards import draw_outputs, draw_sizes, draw_worth
from pool.tasks.chess.pictures.histograms import draw_histograms
from pool.tasks.chess.positions import Position


def draw(
    network: LayeredNetwork,
    facts: Facts,
    boards: Boards | None,
    positions: Sequence[Position],
    folder: Path,
    check: Callable[[Sequence[Path]], object],
) -> list[Path]:
    """The files: those of the first layer if its inputs are pieces on squares (`boards`), those of activations if there
    are positions. `check` is called with them before any is drawn. Raises PoolError."""
    names = {"histograms": True, "first-layer": boards, "outputs": boards, "psqt": boards and boards.worth is not None}
    names["zeros"] = bool(positions)
    paths = {name: folder / f"{name}.png" for name, drawn in names.items() if drawn}
    check(list(paths.values()))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draw_histograms(facts.tensors, network.tensors, paths["histograms"])
        if boards is not None:
            draw_sizes(boards, paths["first-layer"])
            draw_outputs(boards, paths["outputs"])
            if boards.worth is not None:
                draw_worth(boards, boards.worth, paths["psqt"])
        if positions:
            draw_zeros(network, positions, paths["zeros"])
    except OSError as error:
        raise PoolError(f"{error.filename or folder}: {error.strerror}") from None
    return list(paths.values())
