"""Small training files of the tests' own: random games, in many small chunks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import chess
import pytest

from loader._native import binpack, set_simd_level, simd_level
from loader.chess.tools import dedupe, shuffle
from loader.chess.tools.external_sort.memory import anonymous_memory

ENTRIES = (1536, 1024, 512)  # of each file
CHUNK = 128  # entries
YOUNG = 40 << 20  # bytes that a command has in memory when it begins


def write_random_games(path: Path, entries: int, seed: int) -> None:
    """Entries of random games with random scores; one in twenty has none."""
    pick = random.Random(seed)
    writer = binpack().make_writer()
    board, result = chess.Board(), pick.choice((-1, 0, 1))
    for number in range(entries):
        if board.is_game_over() or board.ply() > 200:
            board, result = chess.Board(), pick.choice((-1, 0, 1))
        move = pick.choice(list(board.legal_moves))
        score = 32002 if pick.random() < 0.05 else int(pick.gauss(0, 400))
        own_result = result if board.turn == chess.WHITE else -result
        writer.add(board.fen(), move.uci(), score, board.ply(), own_result)
        board.push(move)
        if (number + 1) % CHUNK == 0:
            writer.finish()
    writer.finish()
    path.write_bytes(writer.take())


@pytest.fixture(scope="session")
def game_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three files of 12, 8 and 4 chunks, 3072 entries together."""
    folder = tmp_path_factory.mktemp("games")
    files = []
    for number, entries in enumerate(ENTRIES):
        files.append(folder / f"games{number}.binpack")
        write_random_games(files[-1], entries, seed=number)
    return files


@pytest.fixture
def restored_level() -> Iterator[None]:
    """For tests that choose the instruction set, which is the whole process's."""
    level = simd_level()
    yield
    set_simd_level(level)


@pytest.fixture(autouse=True)
def a_young_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tests before it have left in memory counts for no command's `--memory`."""
    before = anonymous_memory()
    for tool in (shuffle, dedupe):
        monkeypatch.setattr(tool, "anonymous_memory", lambda: max(0, anonymous_memory() - before) + YOUNG)
