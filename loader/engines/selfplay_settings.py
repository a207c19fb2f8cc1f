"""Settings of `loader generate`, and which of them must be the same when it goes on."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from loader.engines.book import Book
from loader.engines.engine import EngineSettings
from loader.engines.game import GameSettings
from loader.files.journal import Settings

VERSION = 1  # of the games: another one if the same settings make other games


@dataclass(frozen=True)
class GenerateSettings:
    """Settings of self-play."""

    engine: EngineSettings
    positions: int
    seed: int = 0
    random_plies: int = 8
    engines: int = 1
    append: bool = False
    book: Path | None = None
    game: GameSettings = field(default_factory=GameSettings)

    def identity(self, book: Book | None) -> Settings:
        """All that the file's bytes depend on, by option; files by their content. Not --engines, not --timeout."""
        game, limits = self.game, self.game.limits
        program = shutil.which(self.engine.program) or self.engine.program
        options = [f"{name}={value}{digest_of(value)}" for name, value in sorted(self.engine.options)]
        return {
            "games of version": VERSION,
            "--engine": f"{Path(program).name}{digest_of(program)}",
            "--option": ", ".join(options) or None,
            "--units-per-100cp": self.engine.units_per_100cp,
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


def digest_of(value: str) -> str:
    """Describes the content of a file that a value names (a program, a network): ` (sha256 ...)`; else an empty
    text."""
    try:
        if not Path(value).is_file():
            return ""
        with Path(value).open("rb") as file:
            return f" (sha256 {hashlib.file_digest(file, 'sha256').hexdigest()[:16]})"
    except (OSError, ValueError):  # a program may be executable and not readable
        return ""
