"""Checks that a network evaluates to the same integers before and after it is written to a file, or its units are
reordered.

A network that differs is refused. Free of torch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loader.errors import DataError
from loader.files import whole_file
from pool.tasks.chess.network import FileNetwork, Network
from pool.tasks.chess.positions import Inputs, Position, read_fen

_SQUARES = 64
_PIECES = "PpNnBbRrQq"
_PROBES = 64


def write_verified(path: Path, data: bytes, network: FileNetwork, read: Callable[[Path], FileNetwork]) -> None:
    """Writes a network's file, `data`, after a check: a temporary file gets the name `path` only if `read` turns it
    into a network with the same tensors, which evaluates the probe positions to the same integers.

    Raises DataError if the file can't be written, and ValueError if it does not hold the same network. In both cases no
    file is left behind.
    """

    def check(written: Path) -> None:
        read_back = _read_back(written, read)
        check_equal_evaluations(network, read_back, "its file")
        check_tensors(network.tensors, read_back.tensors)

    write_whole(path, data, check)


def check_tensors(before: Mapping[str, npt.NDArray[Any]], after: Mapping[str, npt.NDArray[Any]]) -> None:
    """Checks that the tensors read back from a file equal those that were written. Raises ValueError."""
    for name, values in before.items():
        if name not in after or not np.array_equal(values, after[name]):
            raise ValueError(f"{name}: other numbers in the file than in the network")


def check_equal_evaluations(before: Network, after: Network, what: str, more: Sequence[Position] = ()) -> None:
    """Checks that two networks evaluate to the same in every output bucket, for the probe positions and those in
    `more`. Raises ValueError. `what` names the second network's origin in the message."""
    positions = [*probe_positions(before.inputs), *more]
    expected, result = before.evaluate(positions), after.evaluate(positions)
    differs = (expected.values != result.values).any(axis=1) | (expected.bucket != result.bucket)
    if differs.any():
        raise ValueError(
            f"{int(differs.sum())} of {len(positions)} positions evaluate to something else with {what} than with the "
            "network"
        )


def _read_back(written: Path, read: Callable[[Path], FileNetwork]) -> FileNetwork:
    """Reads the network that was just written. Raises ValueError where `read` raises DataError."""
    try:
        return read(written)
    except DataError as error:
        offset = "" if error.offset is None else f", at offset {error.offset}"
        raise ValueError(f"what is written can't be read back{offset}: {error.reason}") from None


def probe_positions(inputs: Inputs, count: int = _PROBES) -> list[Position]:
    """Returns positions on which two networks can be compared: random pieces on random squares, so that many weights
    take part.

    They are the same in each call. Their numbers of pieces run from 2 to 32, as far as `count` reaches.
    """
    return [read_fen(fen, inputs) for fen in probe_fens(count)]


def probe_fens(count: int) -> Iterator[str]:
    """Yields the FENs of `probe_positions`: two kings and random pieces, without pawns on the first or last rank, the
    sides to move in turn."""
    pick = random.Random(1)
    for number in range(count):
        squares = pick.sample(range(_SQUARES), 2 + number % 31)
        board = dict(zip(squares, ["K", "k", *pick.choices(_PIECES, k=len(squares) - 2)], strict=True))
        for square, piece in board.items():
            if piece in "Pp" and not 8 <= square < _SQUARES - 8:
                board[square] = {"P": "N", "p": "n"}[piece]
        yield f"{_placement(board)} {'wb'[number % 2]} - - 0 1"


def _placement(board: dict[int, str]) -> str:
    """Returns the FEN's piece placement of a board, a map of square numbers (a1 = 0, b1 = 1) to piece letters."""
    ranks = []
    for rank in range(7, -1, -1):
        line = "".join(board.get(8 * rank + file, ".") for file in range(8))
        for empty in range(8, 0, -1):
            line = line.replace("." * empty, str(empty))
        ranks.append(line)
    return "/".join(ranks)


def write_whole(path: Path, data: bytes, check: Callable[[Path], object] | None = None) -> None:
    """Writes a network's file completely or not at all (see `loader.files.whole_file`). Raises DataError if the file
    can't be written."""
    try:
        whole_file.write_atomically(path, data, check)
    except OSError as error:
        raise DataError(path, f"can't be written: {error.strerror}") from None
