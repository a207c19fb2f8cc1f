"""Data for benchmarks: a file as large as the caches are, of chains that are not the same everywhere."""

from __future__ import annotations

from pathlib import Path

from loader import _native

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "data" / "small.binpack"
SAMPLE = ROOT / "configs" / "sample" / "train.binpack"
REAL = SHARED if SHARED.exists() else SAMPLE
FILE_BYTES = 32 << 20


def rotated_copies(source: Path, target: Path) -> None:
    """Copies of the file's first chunk, the chains of each begun at another place, until they are FILE_BYTES."""
    file, writer = _native.BinpackFile(source), _native.BinpackWriter()
    chains = file.count(0)[1]
    copies = -(-FILE_BYTES // file.chunk(0)[1])
    for copy in range(copies):
        writer.copy_chunk(file, 0, copy * chains // copies)
    writer.finish()
    target.write_bytes(writer.take())
