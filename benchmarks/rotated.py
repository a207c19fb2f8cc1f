"""Data for benchmarks: a file as large as the caches are, of chains that are not the same everywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from loader.chess.positions.format import BINPACK
from loader.chess.positions.input import open_sources
from loader.chess.positions.output import add_chunk_headers

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "data" / "small.binpack"
SAMPLE = ROOT / "configs" / "sample" / "train.binpack"
REAL = SHARED if SHARED.exists() else SAMPLE
FILE_BYTES = 32 << 20


def rotated_copies(source: Path, target: Path) -> None:
    """Copies of the file's first chunk, the chains of each begun at another place, until they are FILE_BYTES."""
    (file,) = open_sources([source], BINPACK)
    chains = file.read_units(0)
    copies = -(-FILE_BYTES // len(chains.bytes))
    begins = (copy * len(chains) // copies for copy in range(copies))
    rotated = (chains.take(np.roll(np.arange(len(chains)), -begin)) for begin in begins)
    target.write_bytes(b"".join(add_chunk_headers(rotated, file.format)))
