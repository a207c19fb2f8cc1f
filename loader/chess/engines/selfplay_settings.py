"""Settings of `loader generate`, and those that must be the same when an interrupted work is continued."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from loader.chess.engines.book import Book
from loader.chess.engines.engine import EngineSettings
from loader.chess.engines.game import GameSettings
from loader.chess.engines.opening import Variant
from loader.chess.positions.format import BINPACK
from loader.files.journal import Settings

# Defaults of --opening-score, --win-score and --draw-score.
SCORES = (1000, 2500, 8)  # in internal units of Stockfish 15.1
SCORES_IN_CENTIPAWNS = (277, 693, 2)
VERSION = 2  # incremented when a change of the code makes other games with the same settings


@dataclass(frozen=True)
class GenerateSettings:
    """Settings of `loader generate`: engine, number of positions, openings, rules for ending games."""

    engine: EngineSettings
    positions: int
    seed: int = 0
    random_plies: int = 8
    engines: int = 1
    append: bool = False
    book: Path | None = None
    game: GameSettings = field(default_factory=GameSettings)
    variant: Variant = Variant.CHESS
    format: str = BINPACK  # format of the output; not in the identity, because the output's name determines it

    def identity(self, book: Book | None) -> Settings:
        """Returns all settings on which the bytes of the file depend, by the names of the options. Files (program,
        networks, book) are identified by their content. The number of engines is not among them."""
        game, limits = self.game, self.game.limits
        return {
            "games of version": VERSION,
            **self.engine.identity(),
            **({} if self.variant is Variant.CHESS else {"--variant": str(self.variant)}),
            "--positions": self.positions,
            "--seed": self.seed,
            "--append": self.append,
            "--book": None if book is None else f"sha256 {book.digest[:16]}",
            "--random-plies": self.random_plies,
            "--nodes": limits.nodes,
            "--depth": limits.depth,
            "--opening-score": game.opening_score,
            "--win-score": game.win_score,
            "--win-plies": game.win_plies,
            "--draw-score": game.draw_score,
            "--draw-plies": game.draw_plies,
            "--draw-from-ply": game.draw_from_ply,
            "--max-ply": game.max_ply,
        }
