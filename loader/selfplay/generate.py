"""Many games into one file, on several engine processes.

Games are numbered and written in order of their numbers, so the file does not depend on how many engines
played them: same engine, settings and seed, same bytes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from loader.binpack import Entry, Writer
from loader.selfplay.engine import Engine
from loader.selfplay.game import GameSettings, play_game

UNITS_PER_100CP = 361  # Stockfish 15.1: internal units of a score it prints as 100 centipawns


@dataclass(frozen=True)
class GenerateSettings:
    """What to make."""

    engine: Path
    positions: int
    seed: int = 0
    engines: int = 1
    units_per_100cp: int = UNITS_PER_100CP
    game: GameSettings = field(default_factory=GameSettings)


def generate(settings: GenerateSettings, out: Path, progress: Callable[[int], None] | None = None) -> int:
    """Writes exactly `positions` entries to `out` and gives back the number of games.

    Raises EngineError, or OSError for the file; either leaves nothing behind.
    """
    left = settings.positions
    games = 0
    with Writer(out) as writer, ExitStack() as stack:
        for game in games_in_order(settings, stack):
            for entry in game[:left]:
                writer.add(entry)
            left -= min(left, len(game))
            games += 1
            if progress is not None:
                progress(settings.positions - left)
            if left == 0:
                break
    return games


def games_in_order(settings: GenerateSettings, stack: ExitStack) -> Iterator[list[Entry]]:
    """Game 0, game 1, ... without end, played a little ahead on all engines. `stack` ends the engines."""
    engines = [stack.enter_context(open_engine(settings)) for _ in range(settings.engines)]
    mine = threading.local()

    def play(number: int) -> list[Entry]:
        if not hasattr(mine, "engine"):
            mine.engine = idle.pop()
        return play_game(mine.engine, settings.game, settings.seed, number)

    idle = list(engines)
    pool = ThreadPoolExecutor(settings.engines)
    stack.callback(pool.shutdown, wait=True, cancel_futures=True)
    pending: deque[Future[list[Entry]]] = deque()
    number = 0
    while True:
        while len(pending) < 2 * settings.engines:
            pending.append(pool.submit(play, number))
            number += 1
        yield pending.popleft().result()


def open_engine(settings: GenerateSettings) -> Engine:
    return Engine(settings.engine, settings.units_per_100cp)
