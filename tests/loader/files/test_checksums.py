"""What the loader compresses has a checksum: no flipped bit becomes other positions. Many a library leaves it out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loader.chess.positions.inputs import entries
from loader.cli.main import main
from loader.errors import DataError
from tests.loader.conftest import write_random_games


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_a_flipped_bit_is_noticed(ending: str, tmp_path: Path) -> None:
    source, written = tmp_path / "one.binpack", tmp_path / f"one.txt.{ending}"
    write_random_games(source, 150, seed=5)
    assert main(["convert", str(source), "-o", str(written), "--lossy"]) == 0
    good, data = list(entries(written)), written.read_bytes()
    rng = np.random.default_rng(1)
    noticed = 0
    for place, bit in zip(rng.integers(10, len(data), 60), rng.integers(0, 8, 60), strict=True):
        flipped = bytearray(data)
        flipped[place] ^= 1 << int(bit)
        damaged = tmp_path / f"damaged.txt.{ending}"
        damaged.write_bytes(flipped)
        try:
            assert list(entries(damaged)) == good  # a bit of the compressor's choice, which decodes alike
        except DataError:
            noticed += 1
    assert noticed > 50
