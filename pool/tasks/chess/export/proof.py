"""A network evaluates to the same integers before and after it is written, or its units are put in another order.

What differs is refused. Free of torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loader.errors import DataError
from pool.tasks.chess.export.probes import probe_positions
from pool.tasks.chess.export.whole_file import write_whole
from pool.tasks.chess.network import Network, StoredNetwork
from pool.tasks.chess.positions import Position


def write_proved(path: Path, data: bytes, network: StoredNetwork, read: Callable[[Path], StoredNetwork]) -> None:
    """Writes the bytes of `network`. The file gets its name once `read` has made a network of it that evaluates the
    probe positions to the same integers, and has the same tensors.

    Raises DataError for a file that can't be written, ValueError for one that is not the network; then nothing is left
    behind.
    """

    def check(written: Path) -> None:
        again = _read_back(written, read)
        check_same(network, again, "its file")
        check_tensors(network.tensors, again.tensors)

    write_whole(path, data, check)


def check_tensors(before: Mapping[str, npt.NDArray[Any]], after: Mapping[str, npt.NDArray[Any]]) -> None:
    """That what was read back is what was to be written. Raises ValueError."""
    for name, values in before.items():
        if name not in after or not np.array_equal(values, after[name]):
            raise ValueError(f"{name}: other numbers in the file than in the network")


def check_same(before: Network, after: Network, what: str, more: Sequence[Position] = ()) -> None:
    """That both evaluate to the same in every output bucket, for the probe positions and `more`. Raises ValueError."""
    positions = [*probe_positions(before.inputs), *more]
    found, again = before.evaluate(positions), after.evaluate(positions)
    differing = int(((found.values != again.values).any(axis=1) | (found.bucket != again.bucket)).sum())
    if differing:
        raise ValueError(
            f"{differing} of {len(positions)} positions evaluate to something else with {what} than with the network"
        )


def _read_back(written: Path, read: Callable[[Path], StoredNetwork]) -> StoredNetwork:
    try:
        return read(written)
    except DataError as error:
        where = "" if error.offset is None else f", at offset {error.offset}"
        raise ValueError(f"what is written can't be read back{where}: {error.reason}") from None
