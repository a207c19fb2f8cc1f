"""Fixtures of the NNUE tests: the engine, and its own network."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.pool.tasks.chess.stockfish.support import Engine


@pytest.fixture(scope="session")
def engine_path() -> str:
    """Stockfish: $STOCKFISH, or on the path, or where Debian puts it; never missing in CI."""
    candidates = [os.environ.get("STOCKFISH"), shutil.which("stockfish"), "/usr/games/stockfish"]
    for candidate in candidates:
        if candidate is not None and Path(candidate).is_file():
            return candidate
    message = "no stockfish program (apt-get install stockfish, or set STOCKFISH)"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def engine_net(engine_path: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The engine's own network, as it exports it."""
    path = tmp_path_factory.mktemp("engine") / "own.nnue"
    with Engine(engine_path) as engine:
        engine.say(f"export_net {path}", "isready")
        engine.read_until("readyok")
    return path
