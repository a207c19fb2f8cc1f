"""Stockfish's own networks, out of the packages."""

from __future__ import annotations

from pathlib import Path

from tests.pool.tasks.chess.stockfish.engines.packages import CACHE, package
from tests.pool.tasks.chess.stockfish.engines.wasm import embedded_nets

# Of each: where it is, and its place among the networks there.
_BUILDS = {
    "SFNNv16": ("stockfish@19.0.0", "bin/stockfish-19-single.wasm", 0),
    "SFNNv10": ("stockfish@18.0.8", "bin/stockfish-18-single.wasm", 0),
    "small": ("stockfish@18.0.8", "bin/stockfish-18-single.wasm", 1),
    "SFNNv9": ("stockfish@17.1.0", "src/stockfish-17.1-single-a496a04-part-*.wasm", 0),
}
SUMS = {  # what the SHA-256 sums begin with: the names of the files, nn-1a298aa575a0.nnue and so on
    "SFNNv16": "1a298aa575a0",
    "SFNNv10": "c288c895ea92",
    "small": "37f18f62d772",
    "SFNNv9": "1c0000000000",
    "SFNNv6": "5af11540bbfe",
}


def own_net(version: str) -> Path:
    """The engine's own network as a file."""
    if version == "SFNNv6":
        return package("stockfish@16.0.0") / "src/nn-5af11540bbfe.nnue"
    name, pattern, place = _BUILDS[version]
    path = CACHE / f"{version}.nnue"
    if not path.exists():
        wasm = b"".join(part.read_bytes() for part in sorted(package(name).glob(pattern)))
        part = path.with_suffix(".part")
        part.write_bytes(embedded_nets(wasm)[place])
        part.replace(path)
    return path
